/*
 * A stand-in for NVIDIA's library with one idle GPU. What it does besides answering, a thread and
 * data of a thread, is what the real one does and what a static glibc cannot stand.
 */
#include <pthread.h>
#include <stddef.h>

static __thread unsigned calls;

static void *start(void *nothing)
{
	calls++;
	return nothing;
}

int nvmlInit_v2(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, start, NULL))
		return 999;
	return pthread_join(thread, NULL) ? 999 : 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 1;
	calls++;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = &calls;
	return index;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *rows)
{
	(void)device, (void)rows;
	*count = 0;
	return 0;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, void *rows)
{
	return nvmlDeviceGetComputeRunningProcesses_v3(device, count, rows);
}

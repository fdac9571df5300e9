/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* OpenMP: 37 parallel regions of 3 threads, 41 tasks; prints what it has done. With an argument it does not end in order. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static omp_lock_t lock;
	volatile long sink = 0;
	long sum = 0;

	omp_init_lock(&lock);
	for (int i = 0; i < 37; i++) {
#pragma omp parallel num_threads(3)
		{
#pragma omp for schedule(static) reduction(+ : sum)
			for (int j = 0; j < 101; j++)
				sum += j;
#pragma omp critical
			sum++;
			omp_set_lock(&lock);
			sink++;
			omp_unset_lock(&lock);
		}
	}
#pragma omp parallel num_threads(3)
#pragma omp single
	for (int i = 0; i < 41; i++) {
#pragma omp task
		{
#pragma omp atomic
			sink++;
		}
	}
	/* The last region is open in the threads that wait for more. */
	printf("calls 111+3 omp parallel\ncalls 111 omp critical wait\ncalls 111 omp lock wait\ncalls 41 omp task\n");
	(void)argv;
	if (argc > 1)
		_exit(0);
	return sum == 37 * (5050 + 3) && sink == 37 * 3 + 41 ? 0 : 1;
}

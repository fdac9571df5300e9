/* Threads, processes, files, streams, a socket: all at the same time, by a library that is linked into the program with
 * the compiler's sanitizers. Ends with 0 if all came through. Run in a folder that can be written. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static int shared;
static void *works(void *number) {
    char bytes[64] = "", name[64];
    sprintf(name, "%d-%ld", (int)getpid(), (long)number);
    for (int i = 0; i < 20; i++) {
        int fd = open(name, O_CREAT | O_RDWR, 0600);
        if (write(fd, bytes, 64) != 64 || pread(fd, bytes, 64, 0) != 64 || lseek(fd, 0, SEEK_SET)) exit(2);
        if (write(shared, bytes, 8) != 8) exit(3);
        FILE *stream = fopen(name, "a");
        fprintf(stream, "%d\n", i);
        fclose(stream);
        int copy = dup(fd);
        close(fd);
        close(copy);
    }
    unlink(name);
    return 0;
}
int main(void) {
    pthread_t threads[4];
    shared = open("shared", O_CREAT | O_WRONLY | O_APPEND, 0600);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, works, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    int status, ends[2];
    pid_t pid = 0;
    if (posix_spawn(&pid, "/bin/true", 0, 0, (char *[]){ "true", 0 }, environ) || waitpid(pid, &status, 0) != pid || status) return 4;
    if (!(pid = fork())) { works((void *)9); execl("/bin/true", "true", (char *)0); _exit(5); }
    if (waitpid(pid, &status, 0) != pid || status) return 6;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || send(ends[0], "x", 1, 0) != 1 || read(ends[1], &status, 1) != 1) return 7;
    unlink("shared");
    return 0;
}

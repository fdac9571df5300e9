#include "opens.h"
void opened(int directory, const char *path, int fd) { (void)directory; (void)path; (void)fd; }
void after_open_call(long number, long a, long b, long result) { (void)number, (void)a, (void)b, (void)result; }

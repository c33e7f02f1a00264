/* Reads the clock all the time, for test_vdso.py.
 *
 *   readers any A B    eight threads, until a line comes on stdin; every reading of the wall clock must be ahead of the
 *                      true one by 0, A or B seconds, give or take a minute. Prints how many were, of each, and how many
 *                      were none of them.
 *   readers agree NS   waits for a line; then the functions must agree with each other, and with the true clock + NS, and
 *                      keep to the ABI. Prints "agree", or the first thing that is wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000L
static double ahead[3];
static volatile int stop;
static long seen[8][4];

static long ns(struct timespec t) { return t.tv_sec * BILLION + t.tv_nsec; }

static long truth(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
    return ns(t);
}

static long clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_nsec >= 0 && t.tv_nsec < BILLION ? ns(t) : 0;
}

static long day_ns(void) {
    struct timeval t;
    gettimeofday(&t, NULL);
    return t.tv_usec >= 0 && t.tv_usec < 1000000 ? t.tv_sec * BILLION + t.tv_usec * 1000 : 0;
}

static long reading(int which) {
    switch (which) {
    case 0: return clock_ns(CLOCK_REALTIME);
    case 1: return clock_ns(CLOCK_REALTIME_COARSE);
    case 2: return day_ns();
    default: return time(NULL) * BILLION;
    }
}

static void *any(void *mine) {
    long *counts = mine;
    do /* at least once, however late the scheduler lets this thread begin */
        for (int which = 0; which < 4; which++) {
            double by = (double)(reading(which) - truth()) / BILLION;
            int i = 0;
            while (i < 3 && (by < ahead[i] - 60 || by > ahead[i] + 60)) i++;
            counts[i]++;
        }
    while (!stop);
    return NULL;
}

/* Calls f(a, b) with known values in the registers that a function must keep; whether they are still there. */
static int keeps(void *f, long a, void *b) {
    long lost = 1;
    __asm__ volatile(
        "push %%rbp\n mov $11, %%rbx\n mov $12, %%r12\n mov $13, %%r13\n mov $14, %%r14\n mov $15, %%r15\n mov %%rsp, %%rbp\n"
        "call *%%rax\n"
        "sub %%rsp, %%rbp\n sub $11, %%rbx\n sub $12, %%r12\n sub $13, %%r13\n sub $14, %%r14\n sub $15, %%r15\n"
        "or %%rbp, %%rbx\n or %%r12, %%rbx\n or %%r13, %%rbx\n or %%r14, %%rbx\n or %%r15, %%rbx\n mov %%rbx, %%rax\n"
        "pop %%rbp\n"
        : "=a"(lost), "+D"(a), "+S"(b) : "0"(f)
        : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
    return lost == 0;
}

#define MUST(what) do { if (!(what)) { printf("%s\n", #what); return 1; } } while (0)

static int agree(long by) {
    for (int i = 0; i < 20000; i++) {
        long before = truth(), c1 = clock_ns(0), day = day_ns(), c2 = clock_ns(0), whole = time(NULL) * BILLION;
        long coarse = clock_ns(CLOCK_REALTIME_COARSE), c3 = clock_ns(0), after = truth();
        MUST(before + by <= c1 && c1 <= c2 && c2 <= c3 && c3 <= after + by);
        MUST(c1 - c1 % 1000 <= day && day <= c2);
        MUST(c2 - c2 % BILLION <= whole && whole <= c3);
        MUST(coarse <= c3);
    }
    struct timespec t;
    struct timeval v;
    struct timezone zone, kernels;
    time_t whole;
    memset(&zone, 7, sizeof zone);
    syscall(SYS_gettimeofday, NULL, &kernels);
    MUST(gettimeofday(NULL, NULL) == 0);
    MUST(gettimeofday(NULL, &zone) == 0 && !memcmp(&zone, &kernels, sizeof zone));
    memset(&zone, 7, sizeof zone);
    long before = truth();
    MUST(gettimeofday(&v, &zone) == 0 && !memcmp(&zone, &kernels, sizeof zone));
    long day = v.tv_sec * BILLION + v.tv_usec * 1000;
    MUST(before + by - 1000 < day && day <= truth() + by);
    MUST(time(&whole) == whole || time(&whole) == whole);
    errno = 0;
    MUST(clock_gettime(99, &t) == -1 && errno == EINVAL);
    MUST(keeps(clock_gettime, CLOCK_REALTIME, &t) && keeps(clock_gettime, CLOCK_MONOTONIC, &t));
    MUST(keeps(gettimeofday, (long)&v, &zone) && keeps(gettimeofday, 0, &zone) && keeps(time, (long)&whole, NULL));
    puts("agree");
    return 0;
}

int main(int count, char **words) {
    pthread_t threads[8];
    if (count < 3) return 2;
    puts("ready");
    fflush(stdout);
    if (!strcmp(words[1], "agree")) {
        getchar();
        return agree(atol(words[2]));
    }
    ahead[1] = atof(words[2]);
    ahead[2] = atof(words[3]);
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, any, seen[i]);
    getchar();
    stop = 1;
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    for (int j = 0; j < 4; j++) {
        long sum = 0;
        for (int i = 0; i < 8; i++) sum += seen[i][j];
        printf("%ld ", sum);
    }
    puts("");
    return 0;
}

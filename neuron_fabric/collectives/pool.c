/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one rank's part of a schedule over shared memory. executor.py is its twin in numpy and says
 * what the numbers mean; native.py builds both libraries of the package. Little-endian, 64 bits.
 *
 * Bells: each rank has a page of words that only it writes. A signal is a release store, a wait an
 * acquire load, so that data written before a signal is seen after the wait.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, BLOCK = 4096, STREAMS = 3, SLEEP_NS = 2000000 };
enum { ABORT, CALL, SEEN, AT, SIGNATURE, SLEEPS = 6, WAKE = 8, BELLS = 64 }; /* words of a page */
enum { DONE, NUMBERS, BLOCKED, ABORTED, DIFFERENT };   /* results */
enum { COPY, SIGNAL, WAIT, ADD };                      /* operations */
enum { POOL, IN, OUT, SCRATCH };                       /* memories */

typedef struct {
    int64_t kind, count, target, source, extra;
} op_t;

typedef struct {
    uint8_t *pages, *memory[4];
    const op_t *ops;
    const int64_t *sources;
    int64_t next[STREAMS], end[STREAMS];
    int64_t rank, world, epoch, call, verified; /* ranks, as bits */
    int64_t lines, bytes, stride[4]; /* of a part: lines, bytes in it, bytes from part to part */
    int64_t adder, signature, slice_ns;
    int64_t who, number; /* rank and signal that are waited for; operation that numpy runs */
    uint64_t awaited;    /* all ranks that are waited for, as bits */
} run_t;

static uint64_t *page(const run_t *run, int64_t rank)
{
    return (uint64_t *)(run->pages + rank * PAGE);
}

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Store a word of the own page that others wait for, and wake those that sleep until it changes. A
 * sleeper writes SLEEPS before it looks for the last time, and this looks at SLEEPS after the store:
 * one of them sees the other. */
static void publish(const run_t *run, uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int64_t rank = 0; rank < run->world; rank++)
        if (load(page(run, rank) + SLEEPS) >> run->rank & 1) {
            uint32_t *wake = (uint32_t *)(page(run, rank) + WAKE);
            __atomic_add_fetch(wake, 1, __ATOMIC_SEQ_CST);
            syscall(SYS_futex, wake, FUTEX_WAKE, 1, 0, 0, 0);
        }
}

static void give(const run_t *run, int64_t number)
{
    uint64_t *own = page(run, run->rank);
    own[SEEN] = now();
    own[AT] = run->call << 16 | number;
    publish(run, own + BELLS + number, run->epoch + 1);
}

/* Address of a line, as memory << 48 | line; `*size` becomes at most what its part has from there. */
static uint8_t *place(const run_t *run, int64_t at, int64_t *size)
{
    int64_t memory = at >> 48, line = at & ((1LL << 48) - 1);
    if (memory == POOL || memory == SCRATCH)
        return run->memory[memory] + line * LINE;
    int64_t offset = line % run->lines * LINE, left = run->bytes - offset;
    if (*size > left)
        *size = left > 0 ? left : 0;
    return run->memory[memory] + line / run->lines * run->stride[memory] + offset;
}

/* ---- sums in the order of ranks; a NaN has the device's bits ---- */

#define PLUS(a, b) ((a) + (b))
#define LESS(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define MORE(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))

#define ADDER(name, type, join, last)                                                              \
    static void name(uint8_t *out, const uint8_t **in, int64_t world, int64_t size)               \
    {                                                                                              \
        type sum[BLOCK / sizeof(type)];                                                            \
        for (int64_t at = 0; at < size; at += BLOCK) {                                             \
            int64_t bytes = size - at < BLOCK ? size - at : BLOCK, n = bytes / sizeof(type);       \
            memcpy(sum, in[0] + at, bytes);                                                        \
            for (int64_t k = 1; k < world; k++) {                                                  \
                const type *more = (const type *)(in[k] + at);                                     \
                for (int64_t i = 0; i < n; i++)                                                    \
                    sum[i] = join(sum[i], more[i]);                                                \
            }                                                                                      \
            for (int64_t i = 0; last && i < n; i++)                                                \
                sum[i] = sum[i] != sum[i] ? (type)__builtin_nanf("") : sum[i];                     \
            memcpy(out + at, sum, bytes);                                                          \
        }                                                                                          \
    }
#define ADDERS(type, wraps, last)                                                                  \
    ADDER(sum_##type, wraps, PLUS, last)                                                           \
    ADDER(min_##type, type, LESS, last)                                                            \
    ADDER(max_##type, type, MORE, last)
ADDERS(float, float, 1)
ADDERS(double, double, 1)
ADDERS(int32_t, uint32_t, 0)
ADDERS(int64_t, uint64_t, 0)

typedef void adder_t(uint8_t *, const uint8_t **, int64_t, int64_t);
static adder_t *const ADD_BY[] = {
    sum_float,   min_float,   max_float,   sum_double,  min_double,  max_double,
    sum_int32_t, min_int32_t, max_int32_t, sum_int64_t, min_int64_t, max_int64_t,
};

static void add(const run_t *run, const op_t *op)
{
    const uint8_t *in[64];
    int64_t size = op->count * LINE;
    uint8_t *out = place(run, op->target, &size);
    for (int64_t k = 0; k < op->extra; k++)
        in[k] = place(run, run->sources[op->source + k], &size);
    ADD_BY[run->adder](out, in, op->extra, size);
}

/* ---- waits ---- */

/* Tell the others which call this is; its text is in the page. */
static void announce(const run_t *run)
{
    uint64_t *own = page(run, run->rank);
    if ((int64_t)own[CALL] == run->call)
        return;
    own[SIGNATURE + (run->call & 1)] = run->signature;
    own[SEEN] = now();
    publish(run, own + CALL, run->call);
}

static int await(run_t *run, int64_t rank, int64_t number)
{
    run->who = rank, run->number = number, run->awaited |= 1ULL << rank;
    return BLOCKED;
}

/* Have all of `ranks` given a signal? Each of them is in this call, and has made the same calls
 * before: nothing that a rank reads is from another call. */
static int given(run_t *run, uint64_t ranks, int64_t number, int64_t epoch, int verify)
{
    int turn = run->call & 1;
    for (int64_t rank = 0; rank < run->world; rank++) {
        if (!(ranks >> rank & 1))
            continue;
        if (verify && !(run->verified >> rank & 1)) {
            if ((int64_t)load(page(run, rank) + CALL) < run->call)
                return await(run, rank, -1);
            if (page(run, rank)[SIGNATURE + turn] != page(run, run->rank)[SIGNATURE + turn]) {
                run->who = rank;
                return DIFFERENT;
            }
            run->verified |= 1ULL << rank;
        }
        if ((int64_t)load(page(run, rank) + BELLS + number) <= epoch)
            return await(run, rank, number);
    }
    return DONE;
}

/* Run operations of a stream until one is blocked; `*moved` counts them. */
static int advance(run_t *run, int stream, int64_t *moved)
{
    for (; run->next[stream] < run->end[stream]; run->next[stream]++, ++*moved) {
        const op_t *op = run->ops + run->next[stream];
        int64_t size = op->count * LINE;
        if (op->kind == COPY) {
            const uint8_t *source = place(run, op->source, &size);
            uint8_t *target = place(run, op->target, &size);
            if (source != target)
                memcpy(target, source, size);
        } else if (op->kind == SIGNAL) {
            give(run, op->target);
        } else if (op->kind == WAIT) {
            int fault = given(run, op->source, op->target, run->epoch - op->extra, 1);
            if (fault)
                return fault;
        } else if (run->adder < 0) {
            run->number = run->next[stream]++;
            return NUMBERS;
        } else {
            add(run, op);
        }
    }
    return DONE;
}

static int step(run_t *run, int64_t *moved)
{
    int result = DONE;
    if (given(run, ~0ULL, 0, run->epoch - 2, 0))
        return BLOCKED;
    announce(run); /* all have ended the call before the last, so its signature is not needed */
    for (int stream = 0; stream < STREAMS; stream++) {
        int found = advance(run, stream, moved);
        if (found == NUMBERS || found == DIFFERENT)
            return found;
        if (run->next[stream] < run->end[stream])
            result = BLOCKED;
    }
    return result;
}

/* A rank that has aborted, or -1. */
static int64_t aborted(const run_t *run)
{
    for (int64_t rank = 0; rank < run->world; rank++)
        if (load(page(run, rank) + ABORT))
            return rank;
    return -1;
}

/* One more step, then sleep until an awaited rank signals. A process that spins or yields waits for
 * its turn on a loaded machine, long after the signal. */
static int sleep_step(run_t *run, int64_t *moved)
{
    uint64_t *own = page(run, run->rank), awaited = run->awaited;
    uint32_t *wake = (uint32_t *)(own + WAKE), before = __atomic_load_n(wake, __ATOMIC_SEQ_CST);
    struct timespec limit = {0, SLEEP_NS};
    int64_t start = *moved;
    __atomic_store_n(own + SLEEPS, awaited, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    run->awaited = 0;
    int result = step(run, moved);
    if (result == BLOCKED && *moved == start && !(run->awaited & ~awaited))
        syscall(SYS_futex, wake, FUTEX_WAIT, before, &limit, 0, 0);
    __atomic_store_n(own + SLEEPS, 0, __ATOMIC_RELEASE);
    return result;
}

/* Run until all is done, a Python part is next, something is wrong, or `slice_ns` have gone. */
int nf_pool_run(run_t *run)
{
    int64_t moved = 0, start = now();
    for (int64_t polls = 0;; polls++) {
        int64_t before = moved, stop = aborted(run);
        int result = polls ? sleep_step(run, &moved) : step(run, &moved);
        if (result == DONE)
            give(run, 0);
        /* A call that needs no more signals succeeds, although a rank has aborted since. */
        if (stop >= 0 && (result == BLOCKED || result == DIFFERENT)) {
            run->who = stop;
            return ABORTED;
        }
        if (result != BLOCKED)
            return result;
        if (moved != before)
            polls = 0, start = now();
        else if (now() - start > run->slice_ns)
            return BLOCKED;
    }
}

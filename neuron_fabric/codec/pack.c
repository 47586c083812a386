/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of the codec. numpy_engine.py is their twin, bit for bit: it says what each does, and in
 * which order sums are taken. Built by native.py, with -ffp-contract=off; little-endian.
 *
 * Every function that native.py calls takes each array with its size in bytes and writes nothing
 * before it has checked all of them; it returns `OK`, or a fault of the same number in native.py.
 * One call takes all tensors of a part of a bucket: their lines, units and results follow one another.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

enum { LINE = 64, LANES = 8 * LINE, PIECE = 128 * LANES, INFINITE = 0x7f800000 };

enum { OK, BAD_POINTER, BAD_ALIGNMENT, BAD_SIZE, BAD_NUMBER, BAD_OVERLAP };

#define ALWAYS static inline __attribute__((always_inline))

/* ---- arrays as they come from native.py ---- */

/* `count` items of `item` bytes, `size` bytes in all, aligned to `align`. */
static int check(const void *at, size_t size, size_t count, size_t item, size_t align)
{
    size_t want;
    if (__builtin_mul_overflow(count, item, &want) || size != want)
        return BAD_SIZE;
    if (size && !at)
        return BAD_POINTER;
    return (uintptr_t)at % align ? BAD_ALIGNMENT : OK;
}

static int apart(const void *a, size_t a_size, const void *b, size_t b_size)
{
    uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    int overlap = a_size && b_size && first < second + b_size && second < first + a_size;
    return overlap ? BAD_OVERLAP : OK;
}

/* Lines that n elements take, at `per` elements a line. */
static size_t lines_of(size_t n, size_t per)
{
    return n / per + (n % per != 0);
}

/* A tensor of float32. */
typedef struct {
    float *at;
    size_t n;
} tensor_t;

#define TRY(check)                                                                                 \
    do {                                                                                           \
        int fault = (check);                                                                       \
        if (fault)                                                                                 \
            return fault;                                                                          \
    } while (0)

/* Tensors apart from an array; `need` gets what they take of it, at `per` elements an item. */
static int check_tensors(const tensor_t *x, size_t count, size_t per, const void *array, size_t size,
                         size_t *need)
{
    *need = 0;
    if (count && !x)
        return BAD_POINTER;
    for (size_t t = 0; t < count; t++) {
        size_t bytes;
        if (__builtin_mul_overflow(x[t].n, sizeof(float), &bytes) ||
            __builtin_add_overflow(*need, lines_of(x[t].n, per), need))
            return BAD_SIZE;
        TRY(check(x[t].at, bytes, x[t].n, sizeof(float), sizeof(float)));
        TRY(apart(x[t].at, bytes, array, size));
    }
    return OK;
}

/* What a pass has seen; the same in native.py. */
typedef struct {
    double total;
    uint64_t number;
    uint64_t finite;
} seen_t;

typedef struct {
    double sums[LANES];
    uint64_t number;
    uint32_t largest;
    float threshold;
} pass_t;

/* ---- 512 elements at a time ---- */

ALWAYS unsigned negative8(const float *x)
{
#ifdef __AVX2__
    return _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_setzero_ps(), _CMP_LT_OQ));
#else
    unsigned bits = 0;
    for (int j = 0; j < 8; j++)
        bits |= (unsigned)(x[j] < 0) << j;
    return bits;
#endif
}

ALWAYS unsigned open8(const float *x, float threshold)
{
#ifdef __AVX2__
    __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x));
    return _mm256_movemask_ps(_mm256_cmp_ps(size, _mm256_set1_ps(threshold), _CMP_GT_OQ));
#else
    unsigned bits = 0;
    for (int j = 0; j < 8; j++)
        bits |= (unsigned)(fabsf(x[j]) > threshold) << j;
    return bits;
#endif
}

/* Bit n to bit 2n. */
ALWAYS uint64_t spread(uint64_t bits)
{
    bits = (bits | bits << 16) & 0x0000ffff0000ffff;
    bits = (bits | bits << 8) & 0x00ff00ff00ff00ff;
    bits = (bits | bits << 4) & 0x0f0f0f0f0f0f0f0f;
    bits = (bits | bits << 2) & 0x3333333333333333;
    return (bits | bits << 1) & 0x5555555555555555;
}

ALWAYS void look_line(const float *x, uint8_t *out, pass_t *pass)
{
    uint32_t largest = pass->largest, zeros = 0;
    (void)out;
    for (int j = 0; j < LANES; j++) {
        uint32_t bits;
        memcpy(&bits, x + j, sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
        zeros += bits == 0;
    }
    pass->largest = largest;
    pass->number += zeros;
}

ALWAYS void add_line(const float *x, uint8_t *out, pass_t *pass)
{
    look_line(x, out, pass);
    for (int j = 0; j < LANES; j++)
        pass->sums[j] += fabsf(x[j]);
}

ALWAYS void binary_line(const float *x, uint8_t *out, pass_t *pass)
{
    for (int at = 0; at < LANES; at += 64) {
        uint64_t word = 0;
        for (int j = 0; j < 64; j += 8)
            word |= (uint64_t)negative8(x + at + j) << j;
        memcpy(out + at / 8, &word, sizeof word);
    }
    look_line(x, out, pass);
}

ALWAYS void binary_line_added(const float *x, uint8_t *out, pass_t *pass)
{
    binary_line(x, out, pass);
    for (int j = 0; j < LANES; j++)
        pass->sums[j] += fabsf(x[j]);
}

ALWAYS void ternary_line(const float *x, uint8_t *out, pass_t *pass)
{
    const float threshold = pass->threshold;
    for (int at = 0; at < LANES; at += 32) {
        uint64_t gate = 0, sign = 0;
        for (int j = 0; j < 32; j += 8) {
            gate |= (uint64_t)open8(x + at + j, threshold) << j;
            sign |= (uint64_t)negative8(x + at + j) << j;
        }
        uint64_t word = spread(gate) << 1 | spread(sign & gate);
        memcpy(out + at / 4, &word, sizeof word);
        pass->number += (uint64_t)__builtin_popcountll(gate);
    }
    int32_t limit, bits; /* floats without a sign compare as integers do, and without a branch */
    memcpy(&limit, &threshold, sizeof limit);
    for (int j = 0; j < LANES; j++) {
        float size;
        memcpy(&bits, x + j, sizeof bits);
        bits &= 0x7fffffff;
        bits &= -(bits > limit);
        memcpy(&size, &bits, sizeof size);
        pass->sums[j] += size;
    }
}

/* ---- whole tensors ---- */

static double fold(double *sums)
{
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            sums[j] += sums[j + half];
    double total = sums[0];
    memset(sums, 0, LANES * sizeof *sums);
    return total;
}

/* `per` bytes of lines come out of 512 elements; the last ones are padded with 0.0. */
ALWAYS double each(const float *x, size_t n, uint8_t *lines, size_t per, pass_t *pass,
                   void (*line)(const float *, uint8_t *, pass_t *))
{
    double total = 0;
    size_t at = 0;
    for (; n - at >= LANES; at += LANES) {
        if (at && at % PIECE == 0)
            total += fold(pass->sums);
        line(x + at, per ? lines + at / LANES * per : 0, pass);
    }
    if (at < n) {
        float padded[LANES] = {0};
        uint8_t out[2 * LINE] = {0};
        size_t in_line = LANES * LINE / (per ? per : LINE);
        memcpy(padded, x + at, (n - at) * sizeof *x);
        if (at && at % PIECE == 0)
            total += fold(pass->sums);
        line(padded, out, pass);
        if (per)
            memcpy(lines + at / LANES * per, out, (n - at + in_line - 1) / in_line * LINE);
    }
    return total + fold(pass->sums);
}

ALWAYS void found(seen_t *seen, double total, const pass_t *pass, size_t padding)
{
    seen->finite = pass->largest < INFINITE;
    seen->total = total;
    seen->number = pass->number - padding;
}

static size_t padding_of(size_t n)
{
    return (LANES - n % LANES) % LANES;
}

/* Tensors, what was seen of each, and their lines. */
static int check_pack(const tensor_t *x, size_t count, const uint8_t *lines, size_t size, size_t per,
                      const seen_t *seen, size_t seen_size)
{
    size_t need;
    TRY(check_tensors(x, count, per, lines, size, &need));
    TRY(check(seen, seen_size, count, sizeof *seen, sizeof(uint64_t)));
    return check(lines, size, need, LINE, 1);
}

int nf_look(const tensor_t *x, size_t count, int add, seen_t *seen, size_t seen_size)
{
    size_t need;
    TRY(check_tensors(x, count, LANES, seen, seen_size, &need));
    TRY(check(seen, seen_size, count, sizeof *seen, sizeof(uint64_t)));
    for (size_t t = 0; t < count; t++) {
        pass_t pass = {0};
        double total = add ? each(x[t].at, x[t].n, 0, 0, &pass, add_line)
                           : each(x[t].at, x[t].n, 0, 0, &pass, look_line);
        found(seen + t, total, &pass, padding_of(x[t].n));
    }
    return OK;
}

int nf_pack_binary(const tensor_t *x, size_t count, uint8_t *lines, size_t size, int add,
                   seen_t *seen, size_t seen_size)
{
    TRY(check_pack(x, count, lines, size, 8 * LINE, seen, seen_size));
    for (size_t t = 0; t < count; lines += lines_of(x[t++].n, 8 * LINE) * LINE) {
        pass_t pass = {0};
        double total = add ? each(x[t].at, x[t].n, lines, LINE, &pass, binary_line_added)
                           : each(x[t].at, x[t].n, lines, LINE, &pass, binary_line);
        found(seen + t, total, &pass, padding_of(x[t].n));
    }
    return OK;
}

int nf_pack_ternary(const tensor_t *x, size_t count, const float *thresholds,
                    size_t thresholds_size, uint8_t *lines, size_t size, seen_t *seen,
                    size_t seen_size)
{
    TRY(check_pack(x, count, lines, size, 4 * LINE, seen, seen_size));
    TRY(check(thresholds, thresholds_size, count, sizeof *thresholds, sizeof *thresholds));
    TRY(apart(thresholds, thresholds_size, lines, size));
    for (size_t t = 0; t < count; lines += lines_of(x[t++].n, 4 * LINE) * LINE) {
        pass_t pass = {.threshold = fabsf(thresholds[t])};
        double total = each(x[t].at, x[t].n, lines, 2 * LINE, &pass, ternary_line);
        found(seen + t, total, &pass, 0);
    }
    return OK;
}

/* ---- votes: half a line at a time, bit p of every count in plane p ---- */

typedef uint64_t half_t __attribute__((vector_size(32)));
enum { HALF = sizeof(half_t), PLANES = 8, MOST_WORKERS = 255 };

ALWAYS half_t load(const uint8_t *from)
{
    half_t value;
    memcpy(&value, from, HALF);
    return value;
}

/* a + b + c: the sum stays in a, the carry is given back. */
ALWAYS half_t add3(half_t *a, half_t b, half_t c)
{
    half_t differ = *a ^ b, carry = (*a & b) | (differ & c);
    *a = differ ^ c;
    return carry;
}

ALWAYS half_t vote_of(half_t line, int ternary)
{
    const half_t even = (half_t){0} + 0x5555555555555555;
    if (!ternary)
        return ~line;
    half_t gate = line >> 1 & even, sign = line & even;
    return (gate & ~sign) | (gate & sign) << 1;
}

ALWAYS half_t decide_binary(const half_t *counts, int planes, unsigned workers)
{
    half_t below = {0};
    unsigned limit = (workers + 1) / 2;
    for (int p = 0; p < planes; p++)
        below = limit >> p & 1 ? ~counts[p] | below : ~counts[p] & below;
    return below;
}

ALWAYS half_t decide_ternary(const half_t *counts, int planes)
{
    const half_t even = (half_t){0} + 0x5555555555555555;
    half_t more = {0};
    for (int p = 0; p < planes; p++) {
        half_t other = (counts[p] & even) << 1 | (counts[p] >> 1 & even);
        more = (counts[p] & ~other) | (~(counts[p] ^ other) & more);
    }
    half_t plus = more & even, minus = more >> 1 & even;
    return (plus | minus) << 1 | minus;
}

/* Counts of one half line; those present, if given, are at a distance of n. */
ALWAYS void count_half(const uint8_t *lines, size_t workers, size_t n, const uint8_t *present,
                       int ternary, int planes, half_t *counts)
{
    size_t w = 0;
#define VOTE(k) (vote_of(load(lines + (w + (k)) * n * LINE), ternary) & \
                 ((half_t){0} - (uint64_t)(present ? present[(w + (k)) * n] != 0 : 1)))
    for (int p = 0; p < planes; p++)
        counts[p] = (half_t){0};
    for (; w + 4 <= workers; w += 4) {
        half_t two = add3(&counts[0], VOTE(0), VOTE(1));
        half_t carry = add3(&counts[0], VOTE(2), VOTE(3));
        carry = add3(&counts[1], two, carry);
        for (int p = 2; p < planes; p++) {
            half_t next = counts[p] & carry;
            counts[p] ^= carry;
            carry = next;
        }
    }
    for (; w < workers; w++) {
        half_t carry = VOTE(0);
        for (int p = 0; p < planes; p++) {
            half_t next = counts[p] & carry;
            counts[p] ^= carry;
            carry = next;
        }
    }
#undef VOTE
}

ALWAYS void count_lines(const uint8_t *lines, size_t workers, size_t n, const uint8_t *present,
                        int ternary, int planes, uint8_t *out_planes, uint8_t *out_votes)
{
    for (size_t line = 0; line < n; line++) {
        const uint8_t *here = present ? present + line : 0;
        unsigned voters = present ? 0 : (unsigned)workers;
        for (size_t w = 0; present && w < workers; w++)
            voters += here[w * n] != 0;
        for (size_t at = line * LINE; at < (line + 1) * LINE; at += HALF) {
            half_t counts[PLANES];
            count_half(lines + at, workers, n, here, ternary, planes, counts);
            for (int p = 0; out_planes && p < planes; p++)
                memcpy(out_planes + (size_t)p * n * LINE + at, &counts[p], HALF);
            if (out_votes) {
                half_t vote = ternary ? decide_ternary(counts, planes)
                                      : decide_binary(counts, planes, voters);
                memcpy(out_votes + at, &vote, HALF);
            }
        }
    }
}

/* A number of planes that is known here stays in registers: W 8 to 15. */
int nf_count(const uint8_t *lines, size_t size, size_t workers, size_t n, const uint8_t *present,
             size_t present_size, int ternary, uint8_t *out_planes, size_t planes_size,
             uint8_t *out_votes, size_t votes_size)
{
    int planes = 0;
    size_t items;
    if (!workers || workers > MOST_WORKERS)
        return BAD_NUMBER;
    for (size_t rest = workers; rest; rest >>= 1)
        planes++;
    if (__builtin_mul_overflow(workers, n, &items))
        return BAD_SIZE;
    TRY(check(lines, size, items, LINE, 1));
    TRY(check(present, present_size, present ? items : 0, 1, 1));
    TRY(check(out_planes, planes_size, out_planes ? planes * n : 0, LINE, 1));
    TRY(check(out_votes, votes_size, out_votes ? n : 0, LINE, 1));
    TRY(apart(lines, size, out_planes, planes_size));
    TRY(apart(lines, size, out_votes, votes_size));
    TRY(apart(present, present_size, out_planes, planes_size));
    TRY(apart(present, present_size, out_votes, votes_size));
    TRY(apart(out_planes, planes_size, out_votes, votes_size));
    if (present || planes != 4)
        count_lines(lines, workers, n, present, ternary, planes, out_planes, out_votes);
    else if (ternary)
        count_lines(lines, workers, n, 0, 1, 4, out_planes, out_votes);
    else
        count_lines(lines, workers, n, 0, 0, 4, out_planes, out_votes);
    return OK;
}

/* ---- votes and counts to values ---- */

ALWAYS void expand(const uint8_t *lines, size_t n, int bits, const float *values, float *out)
{
    const int width = 8 / bits;
    float table[256][8];
    for (int byte = 0; byte < 256; byte++)
        for (int k = 0; k < width; k++)
            table[byte][k] = values[byte >> k * bits & ((1 << bits) - 1)];
    size_t whole = n / width;
    for (size_t at = 0; at < whole; at++)
        memcpy(out + at * width, table[lines[at]], width * sizeof *out);
    if (n % width)
        memcpy(out + whole * width, table[lines[whole]], n % width * sizeof *out);
}

/* The first n codes of `size` bytes in whole lines, `item` bytes out of each. */
static int check_unpack(const uint8_t *lines, size_t size, size_t n, int bits, const void *out,
                        size_t out_size, size_t item)
{
    if (bits != 1 && bits != 2)
        return BAD_NUMBER;
    if (size % LINE || lines_of(n, 8 * LINE / (size_t)bits) > size / LINE)
        return BAD_SIZE;
    TRY(check(lines, size, size, 1, 1));
    TRY(check(out, out_size, n, item, item == sizeof(float) ? item : 1));
    return apart(lines, size, out, out_size);
}

/* Each tensor has its own values of the 2 or 4 codes. */
int nf_unpack(const uint8_t *lines, size_t size, int bits, const float *values, size_t values_size,
              const tensor_t *out, size_t count)
{
    size_t need, per = 8 * LINE / (bits == 2 ? 2 : 1), codes = bits == 2 ? 4 : 2, items;
    if (bits != 1 && bits != 2)
        return BAD_NUMBER;
    TRY(check_tensors(out, count, per, lines, size, &need));
    if (size % LINE || need > size / LINE || __builtin_mul_overflow(count, codes, &items))
        return BAD_SIZE;
    TRY(check(lines, size, size, 1, 1));
    TRY(check(values, values_size, items, sizeof *values, sizeof *values));
    TRY(check_tensors(out, count, per, values, values_size, &need));
    for (size_t t = 0; t < count; values += codes, lines += lines_of(out[t++].n, per) * LINE)
        if (bits == 1)
            expand(lines, out[t].n, 1, values, out[t].at);
        else
            expand(lines, out[t].n, 2, values, out[t].at);
    return OK;
}

/* The 8 counts whose bits are in byte `at` of each plane, `size` bytes apart, as bytes. */
ALWAYS uint64_t counts8(const uint8_t *planes, size_t size, int count, size_t at)
{
    uint64_t counts = 0;
    for (int p = 0; p < count; p++) {
        uint64_t byte = planes[p * size + at];
        uint64_t bits = byte * 0x0101010101010101 & 0x8040201008040201;
        counts += ((bits + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101) << p;
    }
    return counts;
}

/* `count` planes of `size` bytes, one after the other. */
static int check_planes(const uint8_t *planes, size_t planes_size, size_t size, int count, size_t n,
                        int bits, const void *out, size_t out_size, size_t item)
{
    if (count < 1 || count > PLANES)
        return BAD_NUMBER;
    TRY(check(planes, planes_size, (size_t)count, size, 1));
    TRY(check_unpack(planes, size, n, bits, out, out_size, item));
    return apart(planes, planes_size, out, out_size);
}

int nf_unpack_net(const uint8_t *planes, size_t planes_size, size_t size, int count, size_t n,
                  int bits, const float *values, size_t values_size, float *out, size_t out_size)
{
    TRY(check_planes(planes, planes_size, size, count, n, bits, out, out_size, sizeof *out));
    TRY(check(values, values_size, bits == 1 ? 256 : 513, sizeof *values, sizeof *values));
    TRY(apart(values, values_size, out, out_size));
    const size_t width = 8 / bits;
    for (size_t at = 0; at * width < n; at++) {
        uint64_t counts = counts8(planes, size, count, at);
        size_t here = n - at * width < width ? n - at * width : width;
        for (size_t k = 0; k < here; k++, counts >>= 8 * bits) {
            int plus = counts & 255, minus = counts >> 8 & 255;
            out[at * width + k] = values[bits == 1 ? plus : plus - minus + 256];
        }
    }
    return OK;
}

/* ---- integer codes: BUCKET elements share a unit ---- */

enum { BUCKET = 1024, DRAWS = 16, MOST_CODE_WORKERS = 255 };

/* Sixteen draws of 16 bits, numbers 16 * block on: Philox 4x64 of ten rounds (Salmon et al., 2011),
 * as numpy's. */
ALWAYS void philox(uint64_t block, const uint64_t key[2], uint16_t *out)
{
    uint64_t c[4] = {block, 0, 0, 0}, k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        unsigned __int128 a = (unsigned __int128)0xD2E7470EE14C6C93 * c[0];
        unsigned __int128 b = (unsigned __int128)0xCA5A826395121157 * c[2];
        c[0] = (uint64_t)(b >> 64) ^ c[1] ^ k0;
        c[2] = (uint64_t)(a >> 64) ^ c[3] ^ k1;
        c[1] = (uint64_t)b;
        c[3] = (uint64_t)a;
        k0 += 0x9E3779B97F4A7C15;
        k1 += 0xBB67AE8584CAA73B;
    }
    memcpy(out, c, sizeof c);
}

/* Floats without a sign compare as integers do; a NaN is beyond all. */
ALWAYS float largest_of(const float *x, size_t n)
{
    int32_t most = 0;
    float largest;
    for (size_t j = 0; j < n; j++) {
        int32_t bits;
        memcpy(&bits, x + j, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

int nf_maxima(const tensor_t *x, size_t count, float *largest, size_t size)
{
    size_t need;
    TRY(check_tensors(x, count, BUCKET, largest, size, &need));
    TRY(check(largest, size, need, sizeof *largest, sizeof *largest));
    for (size_t t = 0; t < count; t++)
        for (size_t at = 0; at < x[t].n; at += BUCKET)
            *largest++ = largest_of(x[t].at + at, x[t].n - at < BUCKET ? x[t].n - at : BUCKET);
    return OK;
}

/* The codes of one bucket; 0 if a value is beyond them. Loops without a branch and of few types are
 * vectorized. A quotient grows with |x|, so that the largest |x| has the largest one. */
ALWAYS int codes_of(const float *x, size_t n, double unit, double top, const double *draws,
                    int8_t *codes)
{
    const float largest = largest_of(x, n);
    if (!(unit > 0)) { /* a code for 0 alone */
        memset(codes, 0, n);
        return largest == 0;
    }
    if (!(largest / unit <= top))
        return 0;
    int32_t wide[BUCKET];
    for (size_t j = 0; j < n; j++) {
        double sum = x[j] / unit + draws[j]; /* with `top` exact: a draw is at most 1 - 2^-17 */
        wide[j] = (int32_t)floor(sum); /* vectorized with -fno-trapping-math */
    }
    for (size_t j = 0; j < n; j++)
        codes[j] = (int8_t)wide[j];
    return 1;
}

/* The codes of one tensor; `key` null: to nearest. */
ALWAYS void pack_codes(const float *x, size_t n, const float *u, int bits, const uint64_t *key,
                       uint8_t *lines, seen_t *seen)
{
    uint16_t words[BUCKET] = {0};
    double draws[BUCKET];
    for (int j = 0; j < BUCKET; j++)
        draws[j] = 0.5;
    *seen = (seen_t){.finite = 1};
    for (size_t at = 0; at < n; at += BUCKET) {
        size_t here = n - at < BUCKET ? n - at : BUCKET;
        int8_t codes[BUCKET] = {0};
        for (size_t j = 0; key && j < here; j += DRAWS)
            philox((at + j) / DRAWS, key, words + j);
        for (size_t j = 0; key && j < BUCKET; j++)
            draws[j] = (words[j] + 0.5) * 0x1p-16;
        const double unit = u[at / BUCKET], top = (1 << (bits - 1)) - 1;
        seen->finite &= here == BUCKET ? codes_of(x + at, BUCKET, unit, top, draws, codes)
                                       : codes_of(x + at, here, unit, top, draws, codes);
        for (size_t j = 0; j < here; j++)
            seen->number += x[at + j] == 0;
        uint8_t *out = lines + at / 8 * (size_t)bits;
        size_t bytes = lines_of(here, 8 * LINE / (size_t)bits) * LINE;
        for (size_t j = 0; bits == 4 && j < bytes; j++)
            out[j] = (uint8_t)((codes[2 * j] & 15) | (codes[2 * j + 1] & 15) << 4);
        if (bits == 8)
            memcpy(out, codes, bytes);
    }
}

/* The number of zeros of a tensor is seen, and as `finite`, whether no value is beyond the codes:
 * else its lines are void. `keys`, two words a tensor, may be null: to nearest. */
int nf_pack_codes(const tensor_t *x, size_t count, const float *u, size_t u_size, int bits,
                  const uint64_t *keys, size_t keys_size, uint8_t *lines, size_t size, seen_t *seen,
                  size_t seen_size)
{
    if (bits != 4 && bits != 8)
        return BAD_NUMBER;
    const size_t per = 8 * LINE / (size_t)bits;
    size_t need;
    TRY(check_pack(x, count, lines, size, per, seen, seen_size));
    TRY(check_tensors(x, count, BUCKET, seen, seen_size, &need));
    TRY(check(u, u_size, need, sizeof *u, sizeof *u));
    TRY(check(keys, keys_size, keys ? count : 0, 2 * sizeof *keys, sizeof *keys));
    TRY(apart(u, u_size, lines, size));
    TRY(apart(keys, keys_size, lines, size));
    for (size_t t = 0; t < count; t++) {
        pack_codes(x[t].at, x[t].n, u, bits, keys ? keys + 2 * t : 0, lines, seen + t);
        u += lines_of(x[t].n, BUCKET);
        lines += lines_of(x[t].n, per) * LINE;
    }
    return OK;
}

/* Sums of one line of codes of the workers, to be in order. */
ALWAYS void add_line_of_codes(const uint8_t *lines, size_t workers, size_t n,
                              const uint8_t *present, int bits, int16_t *sums)
{
    memset(sums, 0, 2 * LINE * sizeof *sums);
    for (size_t w = 0; w < workers; w++) {
        if (present && !present[w * n])
            continue;
        const int8_t *line = (const int8_t *)lines + w * n * LINE;
        for (int j = 0; bits == 8 && j < LINE; j++)
            sums[j] += line[j];
        for (int j = 0; bits == 4 && j < LINE; j++) {
            sums[2 * j] += ((line[j] & 15) ^ 8) - 8;
            sums[2 * j + 1] += line[j] >> 4;
        }
    }
}

/* `width` bytes a sum; each of the layers of a line's sums is `n` lines of `out`. */
int nf_add_codes(const uint8_t *lines, size_t size, size_t workers, size_t n,
                 const uint8_t *present, size_t present_size, int bits, int width, uint8_t *out,
                 size_t out_size)
{
    size_t items;
    if ((bits != 4 && bits != 8) || (width != 1 && width != 2) || !workers ||
        workers > MOST_CODE_WORKERS)
        return BAD_NUMBER;
    size_t layers = (size_t)(8 / bits * width);
    if (__builtin_mul_overflow(workers, n, &items))
        return BAD_SIZE;
    TRY(check(lines, size, items, LINE, 1));
    TRY(check(present, present_size, present ? items : 0, 1, 1));
    TRY(check(out, out_size, n, layers * LINE, 1));
    TRY(apart(lines, size, out, out_size));
    TRY(apart(present, present_size, out, out_size));
    for (size_t line = 0; line < n; line++) {
        int16_t sums[2 * LINE];
        uint8_t narrow[2 * LINE];
        add_line_of_codes(lines + line * LINE, workers, n, present ? present + line : 0, bits, sums);
        for (int j = 0; width == 1 && j < 2 * LINE; j++)
            narrow[j] = (uint8_t)sums[j];
        for (size_t layer = 0; layer < layers; layer++)
            memcpy(out + (layer * n + line) * LINE,
                   (width == 1 ? narrow : (uint8_t *)sums) + layer * LINE, LINE);
    }
    return OK;
}

/* n sums of `width` bytes to unit * sum / present, rounded once. */
ALWAYS void means_of(const uint8_t *sums, int width, size_t n, double unit, double present,
                     float *out)
{
    int16_t wide[LINE];
    if (width == 2)
        memcpy(wide, sums, LINE);
    for (size_t j = 0; width == 1 && j < n; j++)
        wide[j] = (int8_t)sums[j];
    const float same = (float)unit;
    if (present == 1 && same == unit) /* as exact as with double: a sum has 16 bits */
        for (size_t j = 0; j < n; j++)
            out[j] = same * wide[j];
    else
        for (size_t j = 0; j < n; j++)
            out[j] = (float)(unit * wide[j] / present);
}

/* Sums of one tensor as of nf_add_codes, from a line of each layer on, to u * sum / present. */
ALWAYS void unpack_sums(const uint8_t *sums, size_t lines, size_t layers, int width, const float *u,
                        int present, float *out, size_t n)
{
    const size_t of_layer = LINE / (size_t)width, per = layers * of_layer;
    /* A unit over a power of two is exact, and saves a division an element. */
    const double whole = present & (present - 1) ? 1 : present, rest = present / whole;
    for (size_t at = 0; at < n; at += of_layer) {
        const uint8_t *from = sums + (at % per / of_layer * lines + at / per) * LINE;
        const double unit = u[at / BUCKET] / whole;
        const size_t here = n - at < of_layer ? n - at : of_layer;
        if (here < of_layer)
            means_of(from, width, here, unit, rest, out + at);
        else if (width == 2)
            means_of(from, 2, LINE / 2, unit, rest, out + at);
        else
            means_of(from, 1, LINE, unit, rest, out + at);
    }
}

/* Each layer has `lines` lines; `present` is of each tensor. */
int nf_unpack_sums(const uint8_t *sums, size_t size, size_t lines, size_t layers, int width,
                   const float *u, size_t u_size, const uint8_t *present, size_t present_size,
                   const tensor_t *out, size_t count)
{
    size_t items, need;
    if ((width != 1 && width != 2) || !layers || layers > 4)
        return BAD_NUMBER;
    const size_t per = layers * LINE / (size_t)width;
    TRY(check_tensors(out, count, per, sums, size, &need));
    if (__builtin_mul_overflow(layers, lines, &items) || need > lines)
        return BAD_SIZE;
    TRY(check(sums, size, items, LINE, 1));
    TRY(check(present, present_size, count, 1, 1));
    TRY(check_tensors(out, count, BUCKET, u, u_size, &need));
    TRY(check(u, u_size, need, sizeof *u, sizeof *u));
    for (size_t t = 0; t < count; t++)
        if (!present[t])
            return BAD_NUMBER;
    for (size_t t = 0; t < count; t++) {
        unpack_sums(sums, lines, layers, width, u, present[t], out[t].at, out[t].n);
        sums += lines_of(out[t].n, per) * LINE;
        u += lines_of(out[t].n, BUCKET);
    }
    return OK;
}

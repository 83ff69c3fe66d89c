// machine.h - what this machine can do at best: reads of memory and arithmetic in registers. Needs
// nothing of the library.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace colibri::machine {

// How to measure: with so many threads, so much memory, for about so long.
struct Options {
  int n_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  uint64_t n_mib = 1024;
  double seconds = 0.5;
};

inline double Now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// That this thread has run.
inline double ProcessorTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The time from the moment at which all threads stand ready until the last has done work(thread).
template <typename Work>
inline double TimeTogether(int n_threads, const Work& work) {
  std::atomic<int> ready = 0;
  std::atomic<bool> go = false;
  std::vector<double> end(static_cast<size_t>(n_threads));
  std::vector<std::thread> threads;
  for (int t = 0; t < n_threads; ++t) {
    threads.emplace_back([&, t] {
      ++ready;
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      work(t);
      end[static_cast<size_t>(t)] = Now();
    });
  }
  while (ready.load() < n_threads) std::this_thread::yield();
  const double start = Now();
  go.store(true, std::memory_order_release);
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(end.begin(), end.end()) - start;
}

// --- Reading ---

inline uint64_t ReadPlain(const uint8_t* data, uint64_t n_bytes) {
  uint64_t sums[8] = {};
  for (uint64_t i = 0; i + 64 <= n_bytes; i += 64) {
    uint64_t line[8];
    std::memcpy(line, data + i, sizeof(line));
    for (int j = 0; j < 8; ++j) sums[j] += line[j];
  }
  uint64_t sum = 0;
  for (const uint64_t x : sums) sum += x;
  return sum;
}

#ifdef __x86_64__
// Some KiB ahead of the reads, across the ends of pages, where the hardware's prefetch stops.
constexpr uint64_t kPrefetchBytes = 4096;

__attribute__((target("avx2"))) inline uint64_t ReadAvx2(const uint8_t* data, uint64_t n_bytes) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (uint64_t i = 0; i + 128 <= n_bytes; i += 128) {
    const auto* const p = reinterpret_cast<const __m256i*>(data + i);
    _mm_prefetch(reinterpret_cast<const char*>(data + i + kPrefetchBytes), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + i + kPrefetchBytes + 64), _MM_HINT_T0);
    a = _mm256_add_epi64(a, _mm256_load_si256(p));
    b = _mm256_add_epi64(b, _mm256_load_si256(p + 1));
    c = _mm256_add_epi64(c, _mm256_load_si256(p + 2));
    d = _mm256_add_epi64(d, _mm256_load_si256(p + 3));
  }
  a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
  return static_cast<uint64_t>(_mm256_extract_epi64(a, 0) + _mm256_extract_epi64(a, 1) +
                               _mm256_extract_epi64(a, 2) + _mm256_extract_epi64(a, 3));
}
#endif

// Threads meet once a round: waiting for each other is little beside reading a GiB.
inline double ReadBytesPerS(const Options& options) {
  constexpr uint64_t kPage = uint64_t{2} << 20;
  const auto n_threads = static_cast<uint64_t>(options.n_threads);
  const uint64_t part = std::max<uint64_t>(1, (options.n_mib << 20) / n_threads / kPage) * kPage;
  // One page more: prefetches reach beyond the end.
  auto* const data = static_cast<uint8_t*>(std::aligned_alloc(kPage, part * n_threads + kPage));
  if (data == nullptr) {
    std::fprintf(stderr, "machine_probe: no memory for %" PRIu64 " MiB\n", options.n_mib);
    std::exit(1);
  }
#ifdef __linux__
  madvise(data, part * n_threads + kPage, MADV_HUGEPAGE);
#endif
  TimeTogether(options.n_threads,
               [&](int t) { std::memset(data + static_cast<uint64_t>(t) * part, t + 1, part); });
  auto* read = &ReadPlain;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) read = &ReadAvx2;
#endif
  std::vector<double> rates;
  std::atomic<uint64_t> sink = 0;
  const double end = Now() + options.seconds;
  do {
    const double seconds = TimeTogether(options.n_threads, [&](int t) {
      sink += read(data + static_cast<uint64_t>(t) * part, part);
    });
    rates.push_back(static_cast<double>(part * n_threads) / seconds);
  } while (Now() < end || rates.size() < 3);
  std::free(data);
  std::nth_element(rates.begin(), rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2),
                   rates.end());
  return rates[rates.size() / 2];
}

// --- Arithmetic ---
// A body runs n rounds of an instruction in kChains independent sums, more than latency times width
// of any CPU so far. Written in assembly: a compiler keeps arrays of registers in memory, or finds
// out that equal sums are one.
inline constexpr int kChains = 12;

struct Arithmetic {
  const char* instruction;
  bool runs_here;
  double ops_per_step;  // a multiplication and an addition are two
  void (*body)(uint64_t n);
};

#ifdef __x86_64__
// Sums stand in registers 0 to 11, `bits` repeated in 14, `ones` repeated in 15; 12 is free. `step`
// is what is done for sum \\r.
#define COLIBRI_PEAK_BODY(name, features, width, bits, step)                                     \
  __attribute__((target(features))) inline void name(uint64_t n) {                               \
    asm volatile("vmovd %k1, %%xmm14\n vpbroadcastd %%xmm14, %%" width                           \
                 "14\n"                                                                          \
                 "vmovd %k2, %%xmm15\n vpbroadcastd %%xmm15, %%" width                           \
                 "15\n"                                                                          \
                 ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n"                                \
                 "vpxor %%xmm\\r, %%xmm\\r, %%xmm\\r\n"                                          \
                 ".endr\n"                                                                       \
                 "1:\n"                                                                          \
                 ".irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n" step                           \
                 "\n"                                                                            \
                 ".endr\n"                                                                       \
                 "dec %0\n jnz 1b\n"                                                             \
                 "vzeroupper\n"                                                                  \
                 : "+r"(n)                                                                       \
                 : "r"(bits), "r"(0x00010001)                                                    \
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
                   "xmm9", "xmm10", "xmm11", "xmm12", "xmm14", "xmm15");                         \
  }

inline constexpr int kInt8Bits =
    0x03050305;  // small numbers: nothing overflows or becomes denormal
inline constexpr int kBf16Bits = 0x3f003f00;
inline constexpr int kF32Bits = 0x3f000000;
COLIBRI_PEAK_BODY(Int8Avx512Vnni, "avx512f,avx512vnni", "zmm", kInt8Bits,
                  "vpdpbusd %%zmm14, %%zmm14, %%zmm\\r")
COLIBRI_PEAK_BODY(Int8AvxVnni, "avx2,avxvnni", "ymm", kInt8Bits,
                  "%{vex%} vpdpbusd %%ymm14, %%ymm14, %%ymm\\r")
COLIBRI_PEAK_BODY(Int8Avx2, "avx2", "ymm", kInt8Bits,
                  "vpmaddubsw %%ymm14, %%ymm14, %%ymm12\n"
                  "vpmaddwd %%ymm15, %%ymm12, %%ymm12\n"
                  "vpaddd %%ymm12, %%ymm\\r, %%ymm\\r")
COLIBRI_PEAK_BODY(Bf16Avx512, "avx512f,avx512bf16", "zmm", kBf16Bits,
                  "vdpbf16ps %%zmm14, %%zmm14, %%zmm\\r")
COLIBRI_PEAK_BODY(F32Avx512, "avx512f", "zmm", kF32Bits, "vfmadd231ps %%zmm14, %%zmm14, %%zmm\\r")
COLIBRI_PEAK_BODY(F32Avx2, "avx2,fma", "ymm", kF32Bits, "vfmadd231ps %%ymm14, %%ymm14, %%ymm\\r")

// Compilers' names for AVX-VNNI differ; the bit does not.
inline bool HasAvxVnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 &&
         (eax & 1u << 4) != 0;
}
#endif

// The first that runs here counts.
inline std::vector<Arithmetic> Int8Bodies() {
#ifdef __x86_64__
  return {{"vpdpbusd zmm", __builtin_cpu_supports("avx512vnni") != 0, 128, Int8Avx512Vnni},
          {"vpdpbusd ymm", HasAvxVnni(), 64, Int8AvxVnni},
          {"vpmaddubsw ymm", __builtin_cpu_supports("avx2") != 0, 64, Int8Avx2}};
#else
  return {};
#endif
}

inline std::vector<Arithmetic> Bf16Bodies() {
#ifdef __x86_64__
  return {{"vdpbf16ps zmm", __builtin_cpu_supports("avx512bf16") != 0, 64, Bf16Avx512}};
#else
  return {};
#endif
}

inline std::vector<Arithmetic> F32Bodies() {
#ifdef __x86_64__
  return {{"vfmadd231ps zmm", __builtin_cpu_supports("avx512f") != 0, 32, F32Avx512},
          {"vfmadd231ps ymm", __builtin_cpu_supports("fma") != 0, 16, F32Avx2}};
#else
  return {};
#endif
}

// The sum over threads of what each did in the processor time that it had: other programs take time
// away, but leave the rate as it is.
inline double BestOpsPerS(const Options& options, const Arithmetic& arithmetic) {
  constexpr uint64_t kRounds = 1'000'000;  // some 5 ms
  const double ops = arithmetic.ops_per_step * kChains * kRounds;
  std::vector<double> rates(static_cast<size_t>(options.n_threads));
  double best = 0;
  const double end = Now() + options.seconds / 2;
  do {
    TimeTogether(options.n_threads, [&](int t) {
      const double start = ProcessorTime();
      arithmetic.body(kRounds);
      rates[static_cast<size_t>(t)] = ops / (ProcessorTime() - start);
    });
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  } while (Now() < end);
  return best;
}

}  // namespace colibri::machine

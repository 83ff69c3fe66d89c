// kernel_bench - how near the kernels come to the machine: bytes of weights a second for one token,
// floating-point operations a second for many.
//
//   kernel_bench [--table NAME] [--dtype NAME] [--threads N] [--rows N] [--columns N] [--seconds S]
//
// Prints one line for each table, type and number of threads: GB/s with one token, then GFLOPS with
// 1, 4, 16, 64 and 512 tokens. The weights are many matrices, more than the caches hold; a row of
// "read" lines shows what the memory gives to a pure sum of the same bytes.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "kernels/select.h"
#include "memory/arena.h"
#include "platform/cpu_features.h"
#include "platform/thread_pool.h"
#include "support/kernel_data.h"
#include "tensor/dtype.h"

namespace colibri {
namespace {

constexpr uint64_t kWeightBytes = uint64_t{256} << 20;
constexpr int kTokenCounts[] = {1, 4, 16, 64, 512};
constexpr int32_t kRowsOfATask = 64;

struct Options {
  std::string table, dtype;
  int threads = 0;  // 0: 1 and 2
  int32_t rows = 2048, columns = 2048;
  double seconds = 0.3;
};

// With one thread the time that this thread ran, so that other programs count less.
double Now(int n_threads) {
  timespec t;
  clock_gettime(n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Runs `work`, which returns what it did, for some time; the best rate of it.
template <typename Work>
double BestRate(int n_threads, double seconds, Work&& work) {
  double best = 0;
  const double end = Now(n_threads) + seconds;
  do {
    const double start = Now(n_threads);
    const double amount = work();
    best = std::max(best, amount / (Now(n_threads) - start));
  } while (Now(n_threads) < end);
  return best;
}

struct Setup {
  ThreadPool& pool;
  Options options;
  uint8_t* weights;  // kWeightBytes
  const float* x;    // [512, columns]
  float* out;        // [512, rows]
  std::vector<float*> scratch;
};

// One pass over matrices of the set, begun where the last one ended.
double RunMatMul(const Setup& s, KernelTable::MatMulFn matmul, DType dtype, int n_tokens,
                 uint64_t n_matrices, uint64_t n_stored, uint64_t& next) {
  const int32_t rows = s.options.rows, k = s.options.columns;
  const uint64_t row_bytes = *DTypeBytes(dtype, static_cast<uint64_t>(k));
  const int64_t tasks_each = (rows + kRowsOfATask - 1) / kRowsOfATask;
  for (uint64_t i = 0; i < n_matrices; ++i) {
    const uint8_t* const w =
        s.weights + (next++ % n_stored) * row_bytes * static_cast<uint64_t>(rows);
    s.pool.ParallelFor(tasks_each, [&](int64_t task, int thread) {
      const auto row = static_cast<int32_t>(task) * kRowsOfATask;
      matmul({.w = w + static_cast<uint64_t>(row) * row_bytes,
              .w_row_bytes = row_bytes,
              .n_rows = std::min(kRowsOfATask, rows - row),
              .k = k,
              .x = s.x,
              .x_stride = static_cast<size_t>(k),
              .x_rows = nullptr,
              .n_tokens = n_tokens,
              .out = s.out + row,
              .out_stride = static_cast<size_t>(rows),
              .scratch = s.scratch[static_cast<size_t>(thread)]});
    });
  }
  return static_cast<double>(n_matrices) * rows * k;
}

void BenchOne(const Setup& s, const KernelTable& table, DType dtype) {
  const int32_t rows = s.options.rows, k = s.options.columns;
  const uint64_t row_bytes = *DTypeBytes(dtype, static_cast<uint64_t>(k));
  const uint64_t matrix_bytes = row_bytes * static_cast<uint64_t>(rows);
  const uint64_t n_stored = kWeightBytes / matrix_bytes;
  // One matrix of real weights, copied: denormal numbers and NaN would show another machine.
  const auto one =
      testing::RandomWeights(dtype, static_cast<size_t>(rows) * static_cast<size_t>(k), 1);
  for (uint64_t i = 0; i < n_stored; ++i) {
    std::memcpy(s.weights + i * matrix_bytes, one.data(), matrix_bytes);
  }
  uint64_t next = 0;
  const auto matmul = table.matmul[static_cast<size_t>(dtype)];
  std::printf("%-8s %-8s %d thread%s", table.name, std::string(DTypeName(dtype)).c_str(),
              s.pool.n_threads(), s.pool.n_threads() == 1 ? " " : "s");
  for (const int n_tokens : kTokenCounts) {
    const uint64_t n_matrices = n_tokens == 1 ? n_stored / 4 + 1 : n_tokens < 64 ? 4 : 1;
    const double weights_per_s = BestRate(s.pool.n_threads(), s.options.seconds, [&] {
      return RunMatMul(s, matmul, dtype, n_tokens, n_matrices, n_stored, next);
    });
    if (n_tokens == 1) {
      std::printf("  %6.2f GB/s ", weights_per_s * static_cast<double>(row_bytes) / k * 1e-9);
    }
    std::printf(" %7.1f", 2e-9 * weights_per_s * n_tokens);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void BenchRead(const Setup& s) {
  constexpr uint64_t kChunk = uint64_t{1} << 20;
  std::vector<uint64_t> sums(kWeightBytes / kChunk);
  const double rate = BestRate(s.pool.n_threads(), s.options.seconds, [&] {
    s.pool.ParallelFor(kWeightBytes / kChunk, [&](int64_t task, int) {
      uint64_t sum[8] = {};
      const uint8_t* const p = s.weights + static_cast<uint64_t>(task) * kChunk;
      for (uint64_t i = 0; i < kChunk; i += 64) {
        uint64_t line[8];
        std::memcpy(line, p + i, sizeof(line));
        for (int j = 0; j < 8; ++j) sum[j] += line[j];
      }
      for (const uint64_t x : sum) sums[static_cast<size_t>(task)] += x;
    });
    return static_cast<double>(kWeightBytes);
  });
  std::printf("%-8s %-8s %d thread%s  %6.2f GB/s\n", "read", "", s.pool.n_threads(),
              s.pool.n_threads() == 1 ? " " : "s", rate * 1e-9);
}

int Fail(const std::string& message) {
  std::fprintf(stderr, "kernel_bench: %s\n", message.c_str());
  return 1;
}

int Run(const Options& options) {
  std::printf("%s; %d x %d; GFLOPS with", CpuName().c_str(), options.rows, options.columns);
  for (const int n : kTokenCounts) std::printf(" %d", n);
  std::printf(" tokens\n");
  auto arena = Arena::Create(kWeightBytes + (uint64_t{128} << 20));
  if (!arena.ok()) return Fail(arena.status().ToString());
  uint8_t* const weights = arena->Allocate(kWeightBytes);
  std::memset(weights, 1, kWeightBytes);
  const auto values =
      testing::RandomFloats(static_cast<size_t>(512) * static_cast<size_t>(options.columns), 2);
  auto* const x = reinterpret_cast<float*>(arena->Allocate(values.size() * sizeof(float)));
  if (x == nullptr) return Fail("too many columns");
  std::copy(values.begin(), values.end(), x);
  std::vector<float> out(static_cast<size_t>(512) * static_cast<size_t>(options.rows));
  for (const int n_threads : {1, 2}) {
    if (options.threads != 0 && options.threads != n_threads) continue;
    auto pool = ThreadPool::Create(n_threads);
    if (!pool.ok()) return Fail(pool.status().ToString());
    Setup setup{**pool, options, weights, x, out.data(), {}};
    for (int i = 0; i < n_threads; ++i) {
      setup.scratch.push_back(reinterpret_cast<float*>(
          arena->Allocate(MatMulScratchFloats(options.columns) * sizeof(float))));
      if (setup.scratch.back() == nullptr) return Fail("too many columns");
    }
    for (const KernelTableChoice& choice : AllKernels()) {
      if (!choice.runnable) continue;
      if (!options.table.empty() && options.table != choice.table->name) continue;
      BenchRead(setup);
      for (const DType dtype : testing::WeightDTypes()) {
        if (!options.dtype.empty() && options.dtype != DTypeName(dtype)) continue;
        if (options.columns % static_cast<int32_t>(GetDTypeInfo(dtype).block_elements) != 0)
          continue;
        BenchOne(setup, *choice.table, dtype);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  colibri::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (i + 1 == argc) return colibri::Fail(std::string(flag) + " needs a value");
    const std::string value = argv[++i];
    const auto number = colibri::ParseDouble(value).value_or(0);
    if (flag == "--table") {
      options.table = value;
    } else if (flag == "--dtype") {
      options.dtype = value;
    } else if (flag == "--seconds") {
      options.seconds = number;
    } else if (flag == "--threads" && (number == 1 || number == 2)) {
      options.threads = static_cast<int>(number);
    } else if (flag == "--rows" && number >= 1 && number <= 16384) {
      options.rows = static_cast<int32_t>(number);
    } else if (flag == "--columns" && number >= 1 && number <= 32768) {
      options.columns = static_cast<int32_t>(number);
    } else {
      return colibri::Fail("no such flag or value: " + std::string(flag) + " " + value);
    }
  }
  return colibri::Run(options);
}

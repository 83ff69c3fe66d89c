// kernel_bench - single kernels beside the roofline of this machine, with Google Benchmark.
//
//   kernel_bench [--threads=N] [--rows=N] [--columns=N] [Google Benchmark's flags]
//
// Measures first what the machine reads and multiplies at best with so many threads, then each
// kernel: INPUT/TABLE/TYPE/tokens:N, where INPUT is rows (weights in rows, float32 activations),
// f32 (panels, float32 activations), int8 (panels, 8-bit activations) or bf16 (panels, bfloat16
// activations). The matrices of a kernel
// are many, more than the caches hold, and each is read once in turn, as a layer's experts are.
// Counters:
//   GOPS      multiplications and additions a second, in 10^9
//   GBps      bytes of weights read a second, in 10^9
//   roofline  the share of what the machine could do at best on this work: the time that its memory
//             or its arithmetic (of the activations' kind) would take, whichever is longer, by the
//             time taken
//
//   kernel_bench --threads=2 --benchmark_filter=int8/avx512vnni/q4_k
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../probe/machine.h"
#include "base/strings.h"
#include "kernels/select.h"
#include "memory/arena.h"
#include "moe/product.h"
#include "platform/cpu_features.h"
#include "platform/thread_pool.h"
#include "support/kernel_data.h"
#include "tensor/dtype.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

constexpr uint64_t kWeightBytes = uint64_t{256} << 20;
constexpr int kTokenCounts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 33, 48, 64};
constexpr int32_t kMostTokens = 64;

struct Options {
  int threads = DefaultThreadCount();
  int32_t rows = 768, columns = 2048;
};

// What every kernel works on.
struct Bench {
  Options options;
  double read_bytes_per_s = 0;
  double ops_per_s[3] = {};  // by ProductInput
  std::unique_ptr<ThreadPool> pool;
  Arena arena;
  uint8_t* weights = nullptr;         // kWeightBytes
  float* x = nullptr;                 // [kMostTokens, columns]
  ActivationGroup* groups = nullptr;  // [kMostTokens, columns / 32]
  uint16_t* bf16 = nullptr;           // [kMostTokens, BFloat16RowStride(columns)]
  std::vector<float> out;             // [kMostTokens, rows]
  std::vector<ProductScratch> scratch;
  // What `weights` hold now.
  DType dtype = DType::kF32;
  Layout layout = Layout::kRows;
  uint64_t n_matrices = 0;
};

double BestOf(const std::vector<machine::Arithmetic>& bodies, const machine::Options& options) {
  for (const machine::Arithmetic& body : bodies) {
    if (body.runs_here) return machine::BestOpsPerS(options, body);
  }
  return 0;
}

// Copies of one matrix of real weights: denormal numbers and NaN would show another machine.
void FillWeights(Bench& bench, DType dtype, Layout layout) {
  if (bench.n_matrices != 0 && bench.dtype == dtype && bench.layout == layout) return;
  const int32_t rows = bench.options.rows, columns = bench.options.columns;
  const uint64_t row_bytes = *DTypeBytes(dtype, static_cast<uint64_t>(columns));
  std::vector<uint8_t> one =
      testing::RandomWeights(dtype, static_cast<size_t>(rows) * static_cast<size_t>(columns), 1);
  if (layout == Layout::kPanels) {
    const size_t panel_bytes = PanelRowBytes(*FindPanelFormat(dtype), columns) * kPanelRows;
    std::vector<uint8_t> panels;
    for (int32_t row = 0; row < rows; row += kPanelRows) {
      panels.resize(panels.size() + panel_bytes);
      PackPanel(dtype, one.data() + static_cast<uint64_t>(row) * row_bytes, row_bytes,
                std::min(kPanelRows, rows - row), columns,
                panels.data() + panels.size() - panel_bytes);
    }
    one = std::move(panels);
  }
  bench.dtype = dtype;
  bench.layout = layout;
  bench.n_matrices = std::max<uint64_t>(1, kWeightBytes / one.size());
  for (uint64_t i = 0; i < bench.n_matrices; ++i)
    std::memcpy(bench.weights + i * one.size(), one.data(), one.size());
}

// One matrix an iteration, its tasks over all threads.
void RunProduct(benchmark::State& state, Bench& bench, const KernelTable& table, DType dtype,
                Layout layout, ProductInput input) {
  FillWeights(bench, dtype, layout);
  const int32_t rows = bench.options.rows, columns = bench.options.columns;
  const auto n_tokens = static_cast<int32_t>(state.range(0));
  MatrixView matrix{dtype, rows, columns, 0, bench.weights, layout, input};
  matrix.row_bytes = layout == Layout::kPanels ? PanelRowBytes(*FindPanelFormat(dtype), columns)
                                               : *DTypeBytes(dtype, static_cast<uint64_t>(columns));
  const Activations x{bench.x,      static_cast<size_t>(columns),
                      bench.groups, static_cast<size_t>(columns / kGroupColumns),
                      bench.bf16,   BFloat16RowStride(columns)};
  // Tasks of several matrices at once, so that the threads seldom wait for each other.
  const int64_t tasks_each = (rows + kTaskRows - 1) / kTaskRows;
  const auto n_together = static_cast<int64_t>(std::min<uint64_t>(8, bench.n_matrices));
  const int64_t n_tasks = tasks_each * n_together;
  const TaskRuns runs(n_tasks, bench.options.threads);
  uint64_t next = 0;
  const auto task_args = [&](int64_t task, uint64_t first, MatrixView& view) {
    view = matrix;
    view.data +=
        (first + static_cast<uint64_t>(task / tasks_each)) % bench.n_matrices * matrix.bytes();
    ProductArgs args;
    args.w = &view;
    args.first_row = static_cast<int32_t>(task % tasks_each) * kTaskRows;
    args.n_rows = std::min(kTaskRows, rows - args.first_row);
    return args;
  };
  for (auto _ : state) {
    bench.pool->ParallelFor(runs.count(), [&](int64_t run, int thread) {
      const int64_t end = runs.End(run), later = runs.ProbablyNext(run);
      for (int64_t task = runs.Begin(run); task < end; ++task) {
        MatrixView view, next_view;
        ProductArgs args = task_args(task, next, view);
        const int64_t reads_next = task + 1 < end ? task + 1 : later;
        if (reads_next < n_tasks) {
          const ProductArgs after = task_args(reads_next, next, next_view);
          args.next = PanelAt(next_view, after.first_row);
        }
        args.x = x;
        args.n_tokens = n_tokens;
        args.out = bench.out.data() + args.first_row;
        args.out_stride = static_cast<size_t>(rows);
        Multiply(table, args, bench.scratch[static_cast<size_t>(thread)]);
      }
    });
    next = (next + static_cast<uint64_t>(n_together)) % bench.n_matrices;
  }
  const double matrices = static_cast<double>(state.iterations()) * static_cast<double>(n_together);
  const double bytes = matrices * static_cast<double>(matrix.bytes());
  const double ops = 2.0 * matrices * n_tokens * rows * columns;
  const double peak = bench.ops_per_s[static_cast<size_t>(input)];
  const double best_seconds = std::max(bytes / bench.read_bytes_per_s, peak > 0 ? ops / peak : 0.0);
  using benchmark::Counter;
  state.counters["GOPS"] = Counter(1e-9 * ops, Counter::kIsRate);
  state.counters["GBps"] = Counter(1e-9 * bytes, Counter::kIsRate);
  state.counters["roofline"] = Counter(best_seconds, Counter::kIsRate);
}

void Register(Bench& bench, const KernelTable& table, DType dtype, Layout layout,
              ProductInput input) {
  constexpr const char* kInputs[] = {"f32/", "int8/", "bf16/"};
  const char* const kind = layout == Layout::kRows ? "rows/" : kInputs[static_cast<size_t>(input)];
  const std::string name = StrCat(kind, table.name, "/", DTypeName(dtype));
  auto* const family = benchmark::RegisterBenchmark(
      name.c_str(), [&bench, &table, dtype, layout, input](benchmark::State& state) {
        RunProduct(state, bench, table, dtype, layout, input);
      });
  family->ArgName("tokens")->UseRealTime();
  for (const int n_tokens : kTokenCounts) family->Arg(n_tokens);
}

int Fail(const std::string& message) {
  std::fprintf(stderr, "kernel_bench: %s\n", message.c_str());
  return 1;
}

// Null and a message on standard error where memory or threads are missing.
std::unique_ptr<Bench> Prepare(const Options& options) {
  auto bench = std::make_unique<Bench>();
  bench->options = options;
  machine::Options probe;
  probe.n_threads = options.threads;
  bench->read_bytes_per_s = machine::ReadBytesPerS(probe);
  const double f32 = BestOf(machine::F32Bodies(), probe);
  const double int8 = BestOf(machine::Int8Bodies(), probe);
  // A CPU without its instructions multiplies bfloat16 as float32.
  const double bf16 = std::max(f32, BestOf(machine::Bf16Bodies(), probe));
  std::copy_n(std::begin({f32, int8, bf16}), 3, bench->ops_per_s);
  std::printf(
      "%s, %d threads: %.1f GB/s read, %.0f GOPS of int8, %.0f of bfloat16, %.0f of float32; "
      "matrices of %d x %d\n",
      CpuName().c_str(), options.threads, 1e-9 * bench->read_bytes_per_s, 1e-9 * int8, 1e-9 * bf16,
      1e-9 * f32, options.rows, options.columns);
  auto pool = ThreadPool::Create(options.threads);
  if (!pool.ok()) return Fail(pool.status().ToString()), nullptr;
  bench->pool = std::move(*pool);
  auto arena = Arena::Create(kWeightBytes + (uint64_t{256} << 20));
  if (!arena.ok()) return Fail(arena.status().ToString()), nullptr;
  bench->arena = std::move(*arena);
  const auto columns = static_cast<size_t>(options.columns);
  const auto floats = [&](size_t n) {
    return reinterpret_cast<float*>(bench->arena.Allocate(n * sizeof(float)));
  };
  bench->weights = bench->arena.Allocate(kWeightBytes);
  bench->x = floats(kMostTokens * columns);
  bench->groups = reinterpret_cast<ActivationGroup*>(
      bench->arena.Allocate(kMostTokens * columns / kGroupColumns * sizeof(ActivationGroup)));
  bench->bf16 = reinterpret_cast<uint16_t*>(
      bench->arena.Allocate(kMostTokens * BFloat16RowStride(options.columns) * sizeof(uint16_t)));
  if (bench->weights == nullptr || bench->x == nullptr || bench->groups == nullptr ||
      bench->bf16 == nullptr)
    return Fail("too many columns"), nullptr;
  const auto values = testing::RandomFloats(kMostTokens * columns, 2);
  std::copy(values.begin(), values.end(), bench->x);
  for (size_t t = 0; t < kMostTokens; ++t) {
    const KernelTable& table = *AllKernels().front().table;
    table.quantize_row(bench->x + t * columns, options.columns,
                       bench->groups + t * static_cast<size_t>(options.columns / kGroupColumns));
    RoundInput(table, bench->x + t * columns, options.columns,
               bench->bf16 + t * BFloat16RowStride(options.columns));
  }
  bench->out.resize(static_cast<size_t>(kMostTokens) * static_cast<size_t>(options.rows));
  for (int i = 0; i < options.threads; ++i) {
    const ProductScratch scratch{floats(MatMulScratchFloats(options.columns)), floats(kTileFloats)};
    if (scratch.matmul == nullptr || scratch.tile == nullptr)
      return Fail("too many threads"), nullptr;
    bench->scratch.push_back(scratch);
  }
  return bench;
}

// Takes --NAME=VALUE out of the arguments.
void TakeFlag(std::vector<char*>& arguments, std::string_view name, int& value) {
  std::erase_if(arguments, [&](const char* argument) {
    const std::string_view text(argument);
    if (!text.starts_with(name) || text.size() <= name.size() || text[name.size()] != '=')
      return false;
    value = std::atoi(argument + name.size() + 1);
    return true;
  });
}

int Run(int argc, char** argv) {
  Options options;
  std::vector<char*> arguments(argv, argv + argc);
  TakeFlag(arguments, "--threads", options.threads);
  TakeFlag(arguments, "--rows", options.rows);
  TakeFlag(arguments, "--columns", options.columns);
  if (options.threads < 1 || options.threads > ThreadPool::kMaxThreads || options.rows < 1 ||
      options.rows > 16384 || options.columns < 256 || options.columns > 32768 ||
      options.columns % 256 != 0) {
    return Fail("1 to 1024 threads, 1 to 16384 rows, 256 to 32768 columns in steps of 256");
  }
  auto n_arguments = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&n_arguments, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(n_arguments, arguments.data())) return 2;
  const std::unique_ptr<Bench> bench = Prepare(options);
  if (bench == nullptr) return 1;
  for (const KernelTableChoice& choice : AllKernels()) {
    if (!choice.runnable) continue;
    for (const DType dtype : testing::WeightDTypes()) {
      const auto type = static_cast<size_t>(dtype);
      const KernelTable& table = *choice.table;
      Register(*bench, table, dtype, Layout::kRows, ProductInput::kFloat32);
      if (table.float_matmul[type] != nullptr)
        Register(*bench, table, dtype, Layout::kPanels, ProductInput::kFloat32);
      if (table.panel_matmul[type] != nullptr)
        Register(*bench, table, dtype, Layout::kPanels, ProductInput::kInt8Groups);
      if (table.bf16_matmul[type] != nullptr)
        Register(*bench, table, dtype, Layout::kPanels, ProductInput::kBFloat16);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  return colibri::Run(argc, argv);
}

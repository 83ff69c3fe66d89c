// machine_probe - what this machine can do at best, to hold the speed of a model against.
//
//   machine_probe [--threads N] [--mib N] [--seconds S]
//
// Prints one JSON object:
//   read_bytes_per_s  memory read sequentially by all threads, each its own part of --mib MiB (1024
//                     unless said), the median over --seconds (0.5 unless said)
//   int8_ops_per_s    multiplications and additions of int8 dot products that wait for no memory;
//                     null where this machine or program has no instruction for them
//   bf16_ops_per_s    the same of bfloat16
//   f32_ops_per_s     the same of float32
// and with each the instruction. Stands alone: it is built without the library too,
// c++ -std=c++20 -O2 -pthread machine_probe.cc. A rate of arithmetic is the best of many short
// runs, counted in the processor time that each thread had.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "machine.h"

namespace colibri {
namespace {

using machine::Arithmetic;
using machine::Options;

void PrintOps(const Options& options, const char* name, const std::vector<Arithmetic>& bodies) {
  for (const Arithmetic& arithmetic : bodies) {
    if (!arithmetic.runs_here) continue;
    std::printf(",\n \"%s_ops_per_s\": %.4g, \"%s_instruction\": \"%s\"", name,
                machine::BestOpsPerS(options, arithmetic), name, arithmetic.instruction);
    return;
  }
  std::printf(",\n \"%s_ops_per_s\": null, \"%s_instruction\": null", name, name);
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    const double value = i + 1 < argc ? std::atof(argv[i + 1]) : 0;
    if (flag == "--threads" && value >= 1 && value <= 4096) {
      options.n_threads = static_cast<int>(value);
    } else if (flag == "--mib" && value >= 1 && value <= 1 << 20) {
      options.n_mib = static_cast<uint64_t>(value);
    } else if (flag == "--seconds" && value > 0 && value <= 3600) {
      options.seconds = value;
    } else {
      std::fprintf(stderr, "usage: machine_probe [--threads N] [--mib N] [--seconds S]\n");
      return 2;
    }
  }
  std::printf("{\"threads\": %d, \"read_mib\": %" PRIu64 ", \"read_bytes_per_s\": %.4g",
              options.n_threads, options.n_mib, machine::ReadBytesPerS(options));
  PrintOps(options, "int8", machine::Int8Bodies());
  PrintOps(options, "bf16", machine::Bf16Bodies());
  PrintOps(options, "f32", machine::F32Bodies());
  std::printf("}\n");
  return 0;
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  return colibri::Main(argc, argv);
}

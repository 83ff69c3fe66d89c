// cli/measure.h - clocks, memory and medians of `bench`.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace colibri::cli {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Middle of the values (mean of the two middle ones), with the smallest and the largest.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};
// At least one value.
Spread SpreadOf(std::vector<double> values);

// Most resident memory of this process since the last ResetPeakMemory, or since its start where the
// system cannot reset it.
uint64_t PeakResidentBytes();
void ResetPeakMemory();

}  // namespace colibri::cli

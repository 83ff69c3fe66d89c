// model/execution_context.h - what a computation runs on; passed, never global.
#pragma once

#include "kernels/kernel_table.h"
#include "platform/thread_pool.h"

namespace colibri {

class FailureProbe;

// References only; the engine owns both.
struct ExecutionContext {
  ThreadPool& pool;
  const KernelTable& kernels;
  // Looks at what steps give while Forward::FindFailure runs; null in a step.
  FailureProbe* probe = nullptr;
};

}  // namespace colibri

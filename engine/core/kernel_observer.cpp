#include "dlpipe/engine/core/kernel_observer.h"

namespace dlpipe::engine {

KernelObserver*& thread_state::kernel_observer() {
  thread_local KernelObserver* t_observer = nullptr;
  return t_observer;
}

void refuse_recording(const std::string& reason) {
  if (KernelObserver* const observer = thread_state::kernel_observer(); observer != nullptr)
    observer->on_refusal(reason);
}

}  // namespace dlpipe::engine

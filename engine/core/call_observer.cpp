#include "dlpipe/engine/core/call_observer.h"

namespace dlpipe::engine::thread_state {

CallObserver*& call_observer() {
  thread_local CallObserver* t_observer = nullptr;
  return t_observer;
}

}  // namespace dlpipe::engine::thread_state

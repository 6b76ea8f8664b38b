#include "dlpipe/engine/core/inference_mode.h"

namespace dlpipe::engine {

bool& thread_state::inference() {
  thread_local bool t_inference = false;
  return t_inference;
}

bool is_inference() {
  return thread_state::inference();
}

}  // namespace dlpipe::engine

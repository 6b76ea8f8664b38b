#include "dlpipe/run/precision.h"

#include "dlpipe/base/log.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

bool take_tf32(bool wanted, const Device& device) {
  if (!wanted || !device.is_host()) return wanted;
  log(LogLevel::kWarning,
      concat("--tf32 changes nothing on ", device.name(), ": it goes with --device cuda"));
  return false;
}

}  // namespace dlpipe::run

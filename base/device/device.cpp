#include "dlpipe/base/device/device.h"

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe {

static Status no_times(const Device& device) {
  return Status(ErrorCode::kUnsupported, concat("[device] events of ", device.name(), " have no times"));
}
Result<std::unique_ptr<Event>> Device::create_timed_event() {
  return no_times(*this);
}
Result<double> Device::seconds_between(const Event&, const Event&) {
  return no_times(*this);
}

Result<std::unique_ptr<Stream>> Device::borrow_stream(void*) {
  return Status(ErrorCode::kUnsupported, concat("[device] ", name(), " takes no streams of others"));
}

static Status no_graphs(const Device& device) {
  return Status(ErrorCode::kUnsupported, concat("[device] no graphs on ", device.name()));
}
Status Device::begin_capture(Stream&) {
  return no_graphs(*this);
}
Result<std::unique_ptr<Graph>> Device::end_capture(Stream&) {
  return no_graphs(*this);
}
Status Device::launch(const Graph&, Stream&) {
  return no_graphs(*this);
}
Status Device::set_event(Graph&, const Event&, Event&) {
  return no_graphs(*this);
}

Result<Device*> find_device(std::string_view name) {
  if (name == "cpu") return &cpu_device();
  if (name == "cuda") return cuda_device(0);
  int64_t index = 0;
  if (name.starts_with("cuda:") && parse_int(name.substr(5), &index) && index >= 0 && index < 1024) {
    return cuda_device(static_cast<int>(index));
  }
  return misuse("device", "unknown device '", name, "'; use cpu, cuda or cuda:N");
}

}  // namespace dlpipe

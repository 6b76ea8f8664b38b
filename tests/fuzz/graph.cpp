// Any text as the JSON of a compiled model. A graph that is read prints, and is written and read again as itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/graph/graph_file.h"
#include "engine/graph/passes.h"

namespace dlpipe::engine::graph {
namespace {

void check_text(std::string_view text) {
  const std::map<std::string, Tensor> constants = {{"w", Tensor::full({3, 4}, 0.5)},
                                                   {"b", Tensor::full({3}, 0.5)}};
  const auto graph = parse_graph(text, constants, "fuzz");
  if (!graph.ok()) return;
  to_text(*graph);
  to_dot(*graph);
  const auto again = parse_graph(graph_json(*graph), constants, "fuzz");
  if (!again.ok() || graph_json(*again) != graph_json(*graph)) std::abort();
}

}  // namespace
}  // namespace dlpipe::engine::graph

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlpipe::engine::graph::check_text({reinterpret_cast<const char*>(data), size});
  return 0;
}

// A program that runs a compiled model, linked with dlpipe::runtime alone: runtime_program MODEL.dlg X.npy Y.npy
#include <cstdio>

#include "dlpipe/graph.h"
#include "io/formats/npy.h"

using namespace dlpipe;

int main(int count, char** arguments) try {
  if (count != 4) return 2;
  const engine::graph::Runner model(value_or_throw(engine::graph::read_graph(arguments[1])));
  const formats::NpyArray array = value_or_throw(formats::read_npy(arguments[2]));
  engine::Tensor x = engine::Tensor::empty(Shape(std::span<const int64_t>(array.shape)), array.dtype);
  x.copy_from_host(array.bytes.data(), array.bytes.size());
  const engine::Tensor y = model.run({&x, 1})[0].contiguous_copy();
  throw_if_error(formats::write_npy(arguments[3], y.dtype(), y.shape().dims(),
                                    {static_cast<const std::byte*>(y.raw()), y.size_bytes()}));
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

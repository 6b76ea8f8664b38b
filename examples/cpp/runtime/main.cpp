// Runs a compiled model on zeros and prints the shapes of its outputs: runtime MODEL.dlg. It links dlpipe::runtime alone.
#include <dlpipe/graph.h>

#include <cstdio>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const dlpipe::engine::graph::Runner model(
      dlpipe::value_or_throw(dlpipe::engine::graph::read_graph(arguments[1])));
  const dlpipe::engine::graph::Value& input = model.graph().value(model.graph().inputs[0]);
  const dlpipe::engine::Tensor x = dlpipe::engine::Tensor::zeros(input.shape_at(1), input.dtype);
  for (const dlpipe::engine::Tensor& y : model.run({&x, 1}))
    std::printf("%s\n", y.shape().to_string().c_str());
}

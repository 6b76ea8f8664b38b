#include "dlpipe/engine/models/picture_graph.h"

#include "dlpipe/base/refuse.h"

namespace dlpipe::engine {

static constexpr int64_t kMostChannels = 4;

PictureGraph picture_graph(const graph::Graph& graph) {
  if (graph.inputs.size() != 1 || graph.outputs.size() != 1)
    refuse("model", graph.name, " has ", graph.inputs.size(), " inputs and ", graph.outputs.size(),
           " outputs; a model of pictures has one of each");
  const graph::Value& x = graph.value(graph.inputs[0]);
  const Shape& in = x.shape;
  if (x.batch_axes == 0 && in.rank() == 4)
    refuse("model", graph.name, " takes ", x.type_text(), " as '", x.name, "', pictures in batches of ",
           in[0],
           " alone; export it with a batch that may vary (torch.onnx.export: "
           "dynamic_axes={'",
           x.name, "': {0: 'N'}}, or dynamic_shapes with dynamo)");
  const bool is_batch = x.dtype == DType::kF32 && in.rank() == 4 && x.batch_axes == bit(0) && in[0] == 1;
  const bool channels_first = is_batch && in[1] <= kMostChannels && in[3] > kMostChannels;
  if (!is_batch || (!channels_first && in[3] > kMostChannels))
    refuse("model", graph.name, " takes ", x.type_text(), " as '", x.name,
           "'; a model of pictures takes f32 [N,C,H,W] or [N,H,W,C]");
  const graph::Value& y = graph.value(graph.outputs[0]);
  if (y.dtype != DType::kF32 || y.shape.rank() != 2 || y.batch_axes != bit(0) || y.shape[0] != 1)
    refuse("model", graph.name, " answers ", y.type_text(), "; a model of pictures answers f32 [N,classes]");
  if (channels_first) return {in[1], in[2], in[3], y.shape[1], true};
  return {in[3], in[1], in[2], y.shape[1], false};
}

}  // namespace dlpipe::engine

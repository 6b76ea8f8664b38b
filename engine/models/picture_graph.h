// What a graph that tells classes of pictures apart takes and answers.
#pragma once

#include <cstdint>

#include "dlpipe/engine/graph/graph.h"

namespace dlpipe::engine {

struct PictureGraph {
  int64_t channels = 0, height = 0, width = 0;  // of its pictures
  int64_t classes = 0;
  bool channels_first = false;  // [N,C,H,W], as ONNX files mostly have it
};

/// kMisuse names what `graph` hasn't: one input of pictures (f32, [N,H,W,C] or [N,C,H,W], at most 4 channels) and one output
/// of a number for each class, f32 [N,classes].
PictureGraph picture_graph(const graph::Graph& graph);

}  // namespace dlpipe::engine

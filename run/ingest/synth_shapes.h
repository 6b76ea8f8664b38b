// The ten shapes that synth draws, as tests of a point in the plane: each fits the unit circle, unrotated.
#pragma once

#include <string>
#include <vector>

namespace dlpipe::ingest {

struct SynthShape {
  const char* name;
  bool (*contains)(double x, double y);
};

/// Sorted by name.
const std::vector<SynthShape>& synth_shapes();

}  // namespace dlpipe::ingest

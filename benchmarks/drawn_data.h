// A dataset for benchmarks that need none of one's own: drawn JPEGs of ten classes, ingested.
#pragma once

#include <string>

#include "dlpipe/ingest.h"
#include "run/ingest/synth.h"

namespace dlpipe {

/// Writes `per_class` images of `side` x `side` pixels for each class and the dataset that is made of them, at `destination`.
inline void make_drawn_data(const std::string& destination, int64_t per_class, int side) {
  ingest::SynthOptions synth;
  synth.directory = destination + "-jpegs";
  synth.per_class = per_class;
  synth.size_min = synth.size_max = side;
  value_or_throw(ingest::synth(synth));
  ingest::IngestOptions options;
  options.sources = {synth.directory};
  options.destination = destination;
  value_or_throw(ingest::ingest(options));
}

}  // namespace dlpipe

#include "tests/run/sample_data.h"

#include <fstream>

#include "dlpipe/ingest.h"
#include "io/formats/atomic_file.h"
#include "run/ingest/synth.h"

namespace dlpipe::test {

SampleData make_sample_data(const std::string& folder, int per_class, int side, bool coefficients) {
  const SampleData data{folder + "/jpegs", folder + "/data", folder + "/data/train", folder + "/data/val"};
  ingest::SynthOptions synth;
  synth.directory = data.jpegs;
  synth.per_class = per_class;
  synth.size_min = synth.size_max = side;
  synth.seed = 1;
  value_or_throw(ingest::synth(synth));
  ingest::IngestOptions options;
  options.sources = {data.jpegs};
  options.destination = data.split;
  options.split = {0.8, 0.2};
  options.seed = 1;
  options.jpeg = coefficients ? ingest::JpegLayout::kCoefficients : ingest::JpegLayout::kStandard;
  value_or_throw(ingest::ingest(options));
  return data;
}

std::string make_verse_data(const std::string& folder, int lines, const std::vector<double>& split) {
  ingest::IngestOptions options;
  options.sources = {folder + "/verse.txt"};
  options.destination = folder + "/text";
  options.split = split;
  options.length = 16;
  std::ofstream text(options.sources[0]);
  for (int i = 0; i < lines; ++i) text << "one two three; four five six.\n";
  text.close();
  value_or_throw(ingest::ingest(options));
  return options.destination;
}

bool damage_record(const std::string& dataset, const std::string& jpeg) {
  const std::string wanted = *formats::read_file(jpeg);
  const std::string file = dataset + "/data.mdb";
  const size_t place = formats::read_file(file)->find(wanted);
  if (place == std::string::npos) return false;
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(place + wanted.size() / 2));
  stream.put(static_cast<char>(wanted[wanted.size() / 2] ^ 0x55));
  return true;
}

}  // namespace dlpipe::test

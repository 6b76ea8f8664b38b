// A dataset of drawn JPEGs for tests that need the real pipeline: synth, then ingest with a split. Made once
// a process and folder; deterministic.
#pragma once

#include <string>
#include <vector>

namespace dlpipe::test {

struct SampleData {
  std::string jpegs;  // CLASS/NNNNN.jpg
  std::string split;  // holds train and val
  std::string train;
  std::string val;
};

/// Ten classes, `per_class` images each of `side` pixels, a fifth of them for validation, below `folder`.
/// JPEGs stay as they are (tests look for the files' bytes and damage them) or become `coefficients`.
SampleData make_sample_data(const std::string& folder, int per_class, int side = 32,
                            bool coefficients = false);

/// `lines` equal verses as samples of 16 characters, below `folder`, cut into train and val by `split` where there is one; answers the
/// dataset.
std::string make_verse_data(const std::string& folder, int lines, const std::vector<double>& split = {});

/// Flips one byte of a JPEG inside a dataset's file; answers whether it lay in this dataset.
bool damage_record(const std::string& dataset, const std::string& jpeg);

}  // namespace dlpipe::test

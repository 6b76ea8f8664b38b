// Lists of images beside a few files.
#pragma once

#include <gtest/gtest.h>

#include "dlpipe/source.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {

class ManifestTest : public testing::Test {
 protected:
  ManifestTest() {
    for (const char* file : {"p/1.jpg", "p/2.jpg", "p/with, comma.jpg", "3.png"}) write_text(dir / file, "x");
  }
  Result<SourceListing> list(const std::string& text, const std::string& name = "list.csv") {
    write_text(dir / name, text);
    auto source = open_source({dir / name, ""});
    if (!source.ok()) return source.status();
    return (*source)->list();
  }
  std::string message(const std::string& text) { return list(text).status().message(); }
  TempDir dir;
};

}  // namespace dlpipe::data

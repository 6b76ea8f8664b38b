// What a folder of images is read as.
#pragma once

#include <gtest/gtest.h>

#include "dlpipe/source.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {

inline Result<SourceListing> list_folder(const std::string& path) {
  auto source = open_source({path, ""});
  if (!source.ok()) return source.status();
  return (*source)->list();
}

inline void write_each(const TempDir& dir, std::initializer_list<const char*> files) {
  for (const char* file : files) write_text(dir / file, "x");
}

inline std::string refusal_of(const std::string& path) {
  const auto listing = list_folder(path);
  EXPECT_EQ(listing.status().code(), ErrorCode::kMisuse);
  EXPECT_NE(listing.status().message().find("--no-splits makes each folder a class"), std::string::npos)
      << "the way to insist is named: " << listing.status().message();
  return listing.status().message();
}

}  // namespace dlpipe::data

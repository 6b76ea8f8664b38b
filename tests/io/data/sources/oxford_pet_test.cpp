#include <gtest/gtest.h>

#include <map>

#include "dlpipe/io/data/sources/source.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

class OxfordPetSource : public testing::Test {
 protected:
  OxfordPetSource() {
    for (const char* name : {"Abyssinian_100", "Abyssinian_2", "american_bulldog_1", "beagle_9"}) {
      write_text(dir / (std::string("images/") + name + ".jpg"), name);
      write_text(dir / (std::string("annotations/trimaps/") + name + ".png"), "trimap");
      write_text(dir / (std::string("annotations/trimaps/._") + name + ".png"), "of an archiver");
    }
    write_text(dir / "annotations/xmls/Abyssinian_2.xml", "<annotation/>");
    write_text(dir / "annotations/list.txt", "#Image CLASS-ID SPECIES BREED ID\nbeagle_9 5 2 4\n");
    write_text(dir / "annotations/trainval.txt", "Abyssinian_100 1 1 1\nbeagle_9 5 2 4\n");
    write_text(dir / "annotations/test.txt", "american_bulldog_1 2 2 1\n");
  }
  Result<SourceListing> list(const SourceOptions& options) {
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

TEST_F(OxfordPetSource, ListsGiveClassesAndSplitsAndTrimapsAreMasks) {
  ASSERT_EQ(value_or_throw(find_source({dir.path(), ""}))->name, std::string("oxford_pet"));
  const SourceListing listing = value_or_throw(list({dir.path(), ""}));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"Abyssinian", "american_bulldog", "beagle"}))
      << "in the order of their numbers";
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"mask"});
  std::map<std::string, std::pair<std::string, int64_t>> found;
  for (const SourceEntry& entry : listing.entries) {
    found[entry.path] = {entry.split, entry.label};
    EXPECT_EQ(entry.problem, "");
    EXPECT_EQ(value_or_throw(source_->read(entry)).size() + 4, entry.path.size());
    EXPECT_EQ(value_or_throw(source_->read_referred(entry, entry.extra.at(0))).size(), 6u);
  }
  EXPECT_EQ(found,
            (std::map<std::string, std::pair<std::string, int64_t>>{{"Abyssinian_100.jpg", {"train", 0}},
                                                                    {"american_bulldog_1.jpg", {"test", 1}},
                                                                    {"beagle_9.jpg", {"train", 2}}}));
  const std::string warnings = warnings_of(listing);
  for (const char* part : {"is read as Oxford-IIIT Pet: 3 pictures of 3 breeds", "masks of 3: 1 the pet",
                           "left aside: 1 picture that no list names"})
    EXPECT_NE(warnings.find(part), std::string::npos) << part << " in " << warnings;
  for (const SourceEntry& entry : value_or_throw(list({.path = dir.path(), .splits = false})).entries)
    EXPECT_EQ(entry.split, "");
}

TEST_F(OxfordPetSource, WhatIsMissingIsASampleWithoutItOrAProblem) {
  std::filesystem::remove(dir / "annotations/trainval.txt");
  std::filesystem::remove(dir / "annotations/test.txt");
  std::filesystem::remove(dir / "annotations/trimaps/beagle_9.png");
  SourceListing listing = value_or_throw(list({dir.path(), ""}));
  ASSERT_EQ(listing.entries.size(), 1u) << "list.txt alone";
  EXPECT_TRUE(listing.fields.empty());
  EXPECT_EQ(listing.entries[0].split, "");
  std::filesystem::remove(dir / "images/beagle_9.jpg");
  listing = value_or_throw(list({dir.path(), ""}));
  EXPECT_NE(listing.entries[0].problem.find("there is no file"), std::string::npos)
      << listing.entries[0].problem;
}

TEST_F(OxfordPetSource, DamagedListsAreNamedByTheirLine) {
  write_text(dir / "annotations/test.txt", "american_bulldog_1 2 2 1\nboxer_1 2 2\n");
  EXPECT_NE(list({dir.path(), ""}).status().message().find("test.txt line 2: is no NAME CLASS SPECIES BREED"),
            std::string::npos);
  write_text(dir / "annotations/test.txt", "boxer_1 5 2 1\n");
  EXPECT_NE(
      list({dir.path(), ""}).status().message().find("calls class 5 'boxer', a line before it 'beagle'"),
      std::string::npos);
  write_text(dir / "annotations/test.txt", "beagle_9 5 2 4\n");
  EXPECT_NE(list({dir.path(), ""}).status().message().find("described twice"), std::string::npos);
  for (const char* place : {"test.txt line 1", "trainval.txt line 2"})
    EXPECT_NE(list({dir.path(), ""}).status().message().find(place), std::string::npos) << place;
}

TEST_F(OxfordPetSource, OtherFoldersAreWhatTheyWere) {
  write_text(dir / "annotations/trainval.txt", "some words\n");
  EXPECT_NE(value_or_throw(find_source({dir.path(), ""}))->name, std::string("oxford_pet"));
}

}  // namespace
}  // namespace dlpipe::data

#include "io/formats/tfevents.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/bytes.h"
#include "dlpipe/random.h"
#include "io/formats/atomic_file.h"
#include "tests/base/test_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::formats {

using test::ScratchFolder;

static void write_run(const std::string& directory, int64_t first, int64_t last, double factor) {
  auto writer = EventWriter::create(directory);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  if (first > 0) {
    ASSERT_TRUE(writer->session_start(first).ok());
  }
  for (int64_t step = first; step < last; ++step) {
    const std::vector<Scalar> scalars = {{"train/loss", factor * static_cast<double>(step)},
                                         {"train/lr", 0.5}};
    ASSERT_TRUE(writer->scalars(step, scalars).ok());
  }
}

TEST(Events, WhatIsWrittenComesBack) {
  ScratchFolder folder;
  write_run(folder.path(), 0, 3, 1.5);
  const auto events = read_events(folder / "events.out.tfevents.0000000001.dlpipe");
  ASSERT_TRUE(events.ok()) << events.status().message();
  ASSERT_EQ(events->size(), 4u);
  EXPECT_EQ((*events)[0].file_version, "brain.Event:2");
  EXPECT_GT((*events)[0].wall_time, 1.6e9);
  EXPECT_EQ((*events)[3].step, 2);
  EXPECT_EQ((*events)[3].scalars[0].tag, "train/loss");
  EXPECT_EQ((*events)[3].scalars[0].value, 3.0);
}

TEST(Events, AResumedRunWritesALaterFileThatBeginsWithSessionStart) {
  ScratchFolder folder;
  write_run(folder.path(), 0, 5, 1.0);
  write_run(folder.path(), 3, 6, 2.0);
  const auto events = read_events(folder / "events.out.tfevents.0000000002.dlpipe");
  ASSERT_TRUE(events.ok());
  EXPECT_TRUE((*events)[1].session_start);
  EXPECT_EQ((*events)[1].step, 3);
}

TEST(Events, ATornLastRecordEndsTheListAndADamagedOneIsAnError) {
  ScratchFolder folder;
  write_run(folder.path(), 0, 3, 1.0);
  const std::string path = folder / "events.out.tfevents.0000000001.dlpipe";
  const std::string whole = *read_file(path);
  ASSERT_TRUE(write_file(path, whole.substr(0, whole.size() - 3)).ok());
  EXPECT_EQ(read_events(path)->size(), 3u);
  RandomStream random(4, 0);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = whole;
    char& byte = damaged[random.below(static_cast<uint32_t>(whole.size()))];
    byte = static_cast<char>(byte ^ (1 << random.below(8)));
    ASSERT_TRUE(write_file(path, damaged).ok());
    EXPECT_FALSE(read_events(path).ok());
  }
}

// Its checksums are right; the number of its field, cut to 32 bits, would be that of a summary.
TEST(Events, ARecordThatIsNoEventIsNamedWithItsPlace) {
  ScratchFolder folder;
  const std::string message("\xaa\x80\x80\x80\x80\x01\x00", 7);  // number 2^32 + 5, of no bytes
  std::string record(12, '\0');
  record[0] = static_cast<char>(message.size());
  const auto checksum = [](std::string_view bytes) {
    return masked_crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
  };
  const uint32_t of_length = checksum(std::string_view(record).substr(0, 8));
  std::memcpy(record.data() + 8, &of_length, sizeof of_length);
  const uint32_t of_message = checksum(message);
  record += message + std::string(4, '\0');
  std::memcpy(record.data() + record.size() - 4, &of_message, sizeof of_message);
  ASSERT_TRUE(write_file(folder / "events", record).ok());
  const Status status = read_events(folder / "events").status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(status.message(),
            "[tfevents] a record that is not an Event in " + (folder / "events") +
                " at byte 0: not a field tag at byte 6 of 7; the file is corrupt, or not a protocol buffer");
}

TEST(Events, TensorBoardReadsThemAndForgetsWhatAResumeReplaced) {
  const char* python = std::getenv("DLPIPE_PYTHON");
  if (python == nullptr)
    GTEST_SKIP() << "DLPIPE_PYTHON names no interpreter with TensorBoard; scripts/test sets it";
  ScratchFolder folder;
  write_run(folder.path(), 0, 5, 1.0);
  write_run(folder.path(), 3, 6, 2.0);
  const std::string command = std::string(python) + " " + test_file("io/formats/read_events.py") + " " +
                              folder.path() + " 2>/dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string out;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  ASSERT_EQ(::pclose(pipe), 0) << command;
  EXPECT_EQ(
      out, "train/loss 0=0.0 1=1.0 2=2.0 3=6.0 4=8.0 5=10.0\ntrain/lr 0=0.5 1=0.5 2=0.5 3=0.5 4=0.5 5=0.5\n");
}

}  // namespace dlpipe::formats

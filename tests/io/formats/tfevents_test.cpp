#include "dlpipe/io/formats/tfevents.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "dlpipe/base/rng.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/io/formats/crc32c.h"
#include "test_data.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::formats {

using test::ScratchFolder;

TEST(Crc32c, EqualsThePublishedVectors) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xe3069283u);
  const std::vector<std::byte> zeros(32);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(zeros), 0x8a9136aau);
  // Beside its definition, bit by bit, at every length and beginning.
  std::vector<std::byte> bytes(96);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  for (size_t begin = 0; begin < 8; ++begin) {
    for (size_t count = 0; count <= 70; ++count) {
      const std::span<const std::byte> part(bytes.data() + begin, count);
      uint32_t crc = 0xffffffffu;
      for (const std::byte byte : part) {
        crc ^= static_cast<uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
      }
      ASSERT_EQ(crc32c(part), ~crc) << begin << " " << count;
    }
  }
}

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

TEST(Events, TensorBoardReadsThemAndForgetsWhatAResumeReplaced) {
  const char* python = std::getenv("DLPIPE_PYTHON");
  if (python == nullptr)
    GTEST_SKIP() << "DLPIPE_PYTHON names no interpreter with TensorBoard; scripts/test sets it";
  ScratchFolder folder;
  write_run(folder.path(), 0, 5, 1.0);
  write_run(folder.path(), 3, 6, 2.0);
  const std::string command = std::string(python) + " " DLPIPE_TEST_DATA "/io/formats/read_events.py " +
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

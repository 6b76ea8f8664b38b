#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "io/data/sources/bytes/scratch_file.h"
#include "io/data/sources/typed_columns.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/sources/wire_writing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

std::string npy(const std::string& dtype, const std::string& shape, const std::string& data,
                const std::string& order = "False") {
  std::string dict = "{'descr': '" + dtype + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }";
  dict += std::string(63 - (10 + dict.size()) % 64, ' ') + "\n";
  return "\x93NUMPY\x01" + std::string(1, '\0') + le_bytes(dict.size(), 2) + dict + data;
}

/// Numbers 0, 1, 2, ... as bytes.
std::string count_up(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>(i);
  return text;
}

class NumpySource : public testing::Test {
 protected:
  Result<SourceListing> list(SourceOptions options) {
    options.scratch = std::make_shared<ScratchSpace>(dir.path());
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  std::string message(const std::string& images, const std::string& labels) {
    write_text(dir / "images.npy", images);
    write_text(dir / "labels.npy", labels);
    return list({dir.path(), ""}).status().message();
  }
  std::vector<uint8_t> pixels(const SourceEntry& entry) {
    const std::vector<std::byte> bytes = value_or_throw(source_->read(entry));
    const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
    return {begin + kRawHeaderBytes, begin + bytes.size()};
  }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

TEST_F(NumpySource, ArraysOfAFolderArePaired) {
  write_text(dir / "x_train.npy", npy("|u1", "3, 2, 2", count_up(12)));
  write_text(dir / "y_train.npy", npy("<i8", "3", le_bytes(7, 8) + le_bytes(3, 8) + le_bytes(12, 8)));
  write_text(dir / "x_test.npy", npy("|u1", "1, 2, 2", count_up(4)));
  write_text(dir / "y_test.npy", npy(">i2", "1, 1", std::string("\0\x07", 2)));
  SourceListing listing = value_or_throw(list({dir.path(), ""}));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"3", "7", "12"}));
  ASSERT_EQ(listing.entries.size(), 4u);
  EXPECT_EQ(listing.entries[0].path, "test-000000");
  EXPECT_EQ(listing.entries[0].label, 1) << "the most significant byte first";
  EXPECT_EQ(listing.entries[0].split, "test");
  EXPECT_EQ(listing.entries[3].path, "train-000002");
  EXPECT_EQ(listing.entries[3].label, 2);
  EXPECT_EQ(pixels(listing.entries[3]), (std::vector<uint8_t>{8, 9, 10, 11}));
  listing = value_or_throw(list({dir / "x_train.npy", ""}));
  ASSERT_EQ(listing.entries.size(), 3u) << "with the labels of its split";
  EXPECT_EQ(listing.entries[0].label, 1);
  EXPECT_EQ(listing.entries[0].split, "");
}

TEST_F(NumpySource, ChannelsMayStandFirstAndOrderBeFortrans) {
  write_text(dir / "x.npy", npy("|u1", "2, 3, 2, 2", count_up(24)));
  SourceListing listing = value_or_throw(list({dir.path(), ""}));
  EXPECT_EQ(pixels(listing.entries[1]),
            (std::vector<uint8_t>{12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23}));
  write_text(dir / "x.npy", npy("|u1", "2, 2, 3", count_up(12), "True"));
  listing = value_or_throw(list({dir.path(), ""}));
  EXPECT_EQ(pixels(listing.entries[0]), (std::vector<uint8_t>{0, 4, 8, 2, 6, 10}));
  EXPECT_EQ(pixels(listing.entries[1]), (std::vector<uint8_t>{1, 5, 9, 3, 7, 11}));
}

TEST_F(NumpySource, LabelsOfManyKinds) {
  write_text(dir / "images.npy", npy("|u1", "2, 1, 1", "ab"));
  const auto with = [&](const std::string& labels) {
    write_text(dir / "labels.npy", labels);
    return value_or_throw(list({dir.path(), ""}));
  };
  SourceListing listing =
      with(npy("<U2", "2", le_bytes('d', 4) + le_bytes(0xfc, 4) + le_bytes('c', 4) + le_bytes(0, 4)));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"c", "d\u00fc"}));
  EXPECT_EQ(listing.entries[0].label, 1);
  EXPECT_EQ(with(npy("|S3", "2", std::string("ab\0cde", 6))).classes,
            (std::vector<std::string>{"ab", "cde"}));
  EXPECT_EQ(with(npy("|b1", "2", std::string("\1\0", 2))).entries[0].label, 1);
  listing = with(npy("|u1", "2, 3", std::string("\0\0\1\1\0\0", 6)));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"0", "2"})) << "one-hot";
  listing = with(npy("|u1", "2, 3", std::string("\1\0\1\0\0\0", 6)));
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"labels"});
  EXPECT_EQ(decode_labels(listing.entries[0].extra[0]), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(listing.entries[1].extra[0], "");
  std::string numbers(8, '\0');
  const float values[] = {0.5f, -2.25f};
  std::memcpy(numbers.data(), values, sizeof values);
  listing = with(npy("<f4", "2", numbers));
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"target"});
  EXPECT_EQ(floats(listing.entries[1].extra[0]), std::vector<float>{-2.25f});
}

TEST_F(NumpySource, TargetsThatAreNoNumbersAreNamed) {
  const std::string images = npy("|u1", "3, 1, 1", "abc");
  const auto error = [&](double value, const std::string& shape, size_t at) {
    double values[6] = {0, 1, 0.5, 2, 3, 1};
    values[at] = value;
    std::string bytes(shape == "3" ? 24 : 48, '\0');
    std::memcpy(bytes.data(), values, bytes.size());
    return message(images, npy("<f8", shape, bytes));
  };
  EXPECT_EQ(error(2.5, "3", 1), "");
  EXPECT_EQ(error(2.5, "3, 2", 5), "");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(error(nan, "3", 1).find("the array labels holds nan in row 1, counted from 0"), std::string::npos)
      << error(nan, "3", 1);
  EXPECT_NE(error(nan, "3, 2", 5).find("holds nan in row 2"), std::string::npos) << error(nan, "3, 2", 5);
  EXPECT_NE(error(-std::numeric_limits<double>::infinity(), "3", 0).find("holds -inf in row 0"),
            std::string::npos);
  EXPECT_NE(error(1e300, "3", 0).find("holds 1e+300 in row 0"), std::string::npos) << "no f32 holds it";
}

TEST_F(NumpySource, TextsOfAnotherLengthNameTheClasses) {
  write_text(dir / "x.npy", npy("|u1", "4, 1, 1", "abcd"));
  write_text(dir / "y.npy", npy("|u1", "4", std::string("\2\0\2\1", 4)));
  const auto with_classes = [&](const std::string& names, const SourceOptions& options) {
    write_text(dir / "classes.npy", names);
    return list(options);
  };
  const auto named = [&](const SourceOptions& options) {
    const SourceListing listing = value_or_throw(with_classes(npy("|S3", "3", "doganteel"), options));
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"dog", "ant", "eel"}));
    EXPECT_TRUE(listing.has_class_order);
    EXPECT_NE(warnings_of(listing).find("the array classes names the classes"), std::string::npos)
        << warnings_of(listing);
    std::vector<int64_t> labels;
    for (const SourceEntry& entry : listing.entries) labels.push_back(entry.label);
    EXPECT_EQ(labels, (std::vector<int64_t>{2, 0, 2, 1}));
  };
  named({.path = dir.path()});
  named({.path = dir / "x.npy"});
  named({.path = dir.path(), .label = "y"});
  const auto expect_aside = [&](const std::string& names) {
    const SourceListing listing = value_or_throw(with_classes(names, {.path = dir.path()}));
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"0", "1", "2"}));
    EXPECT_NE(warnings_of(listing).find("ignored because they are neither images nor labels: 'classes'"),
              std::string::npos)
        << warnings_of(listing);
  };
  expect_aside(npy("|S3", "2", "dogant"));     // there is a label 2
  expect_aside(npy("|S3", "3", "dogantdog"));  // twice
  expect_aside(npy("|u1", "3", "\1\2\3"));     // numbers
  const std::string both =
      with_classes(npy("|S3", "4", "doganteelfox"), {.path = dir.path()}).status().message();
  EXPECT_NE(both.find("two arrays of labels, classes and y"), std::string::npos)
      << both << ": either may be the labels";
}

TEST_F(NumpySource, NamesOfClassesAreThoseOfAllSplits) {
  for (const char* split : {"train", "test"}) {
    write_text(dir / ("x_" + std::string(split) + ".npy"), npy("|u1", "2, 1, 1", "ab"));
    write_text(dir / ("y_" + std::string(split) + ".npy"),
               npy("|u1", "2, 3", std::string("\1\0\1\0\0\0", 6)));
  }
  write_text(dir / "class_names.npy", npy("|S3", "4", "doganteelfox"));
  const SourceListing listing = value_or_throw(list({.path = dir.path()}));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"dog", "ant", "eel", "fox"}));
  EXPECT_EQ(decode_labels(listing.entries[0].extra[0]), (std::vector<int64_t>{0, 2}));
}

TEST_F(NumpySource, WhatCannotBeReadIsNamedWithItsForm) {
  const std::string labels = npy("|u1", "2", "ab");
  const auto images = [&](const std::string& text) { return message(text, labels); };
  EXPECT_EQ(images(npy("|u1", "2, 1, 1", "ab")), "");
  EXPECT_NE(
      images(npy("<f4", "2, 1, 1", count_up(8))).find("images is [2, 1, 1] of float32; images must be uint8"),
      std::string::npos);
  EXPECT_NE(images(npy("|u1", "2, 4", count_up(8))).find("images must be [N,H,W]"), std::string::npos);
  EXPECT_NE(images(npy("|u1", "2, 2, 1, 4", count_up(16))).find("C must be 1 (grey) or 3"),
            std::string::npos);
  const std::string too_wide = images(npy("|u1", "2, 1, 65536", std::string(2 * 65'536, 'a')));
  EXPECT_NE(too_wide.find("images have at most 65535 pixels on a side"), std::string::npos) << too_wide;
  EXPECT_NE(images(npy("|O", "2, 1, 1", count_up(2))).find("are pickled"), std::string::npos);
  EXPECT_NE(images(npy("<c8", "2, 1, 1", count_up(16))).find("its dtype is '<c8'"), std::string::npos);
  EXPECT_NE(images(npy("|u1", "3, 1, 1", "abc")).find("has 2 labels for 3 images in images"),
            std::string::npos);
  EXPECT_NE(message(npy("|u1", "2, 1, 1", "ab"), npy("<i3", "2", "abcdef")).find("'<i3'"), std::string::npos);
  write_text(dir / "x.npy", npy("|u1", "2, 1, 1", "ab"));
  EXPECT_NE(message(npy("|u1", "2, 1, 1", "ab"), labels).find("two arrays of images"), std::string::npos);
}

TEST_F(NumpySource, HostileHeadersAreRefused) {
  const std::string labels = npy("|u1", "2", "ab");
  const auto images = [&](const std::string& text) { return message(text, labels); };
  const std::string good = npy("|u1", "2, 1, 1", "ab");
  EXPECT_NE(images(good + "c").find("has 3 bytes after its header"), std::string::npos);
  EXPECT_NE(images(npy("|u1", "4294967296, 4294967296, 2", "ab")).find("truncated"), std::string::npos)
      << "the product doesn't fit into 64 bits";
  EXPECT_NE(images(npy("|u1", "9223372036854775807, 2, 1", "")).find("truncated"), std::string::npos);
  EXPECT_NE(images(npy("|u1", "-2, -1, 1", "ab")).find("'shape' holds '-2'"), std::string::npos);
  EXPECT_NE(images(npy("|u1", "2, 0, 1", "")).find("empty"), std::string::npos);
  EXPECT_NE(images(npy("|u1", "__import__('os').system('x')", "")).find("'shape' holds"), std::string::npos);
  EXPECT_NE(images(npy("<U9999999999", "2, 1, 1", "ab")).find("no size"), std::string::npos);
  EXPECT_NE(images(npy("|u1", "2, 1, 1", "ab", "Maybe")).find("neither True nor False"), std::string::npos);
  std::string shape = "1";
  for (int i = 0; i < 100; ++i) shape += ", 1";
  EXPECT_NE(images(npy("|u1", shape, "a")).find("too many dimensions"), std::string::npos);
  for (size_t size = 0; size < good.size(); ++size) EXPECT_NE(images(good.substr(0, size)), "") << size;
  std::string version = good;
  version[6] = 9;
  EXPECT_NE(images(version).find("version 9"), std::string::npos);
}

TEST_F(NumpySource, ADamagedZipIsRefused) {
  write_text(dir / "a.npz", "PK\x03\x04 hello");
  EXPECT_NE(list({dir / "a.npz", ""}).status().message().find("it is not a zip file, or is truncated"),
            std::string::npos);
  const std::string end = "PK\x05\x06" + std::string(4, '\0') + le_bytes(1, 2) + le_bytes(1, 2) +
                          le_bytes(0xfffffff0, 4) + le_bytes(2, 4) + std::string(2, '\0');
  write_text(dir / "a.npz", end);
  EXPECT_NE(list({dir / "a.npz", ""}).status().message().find("after its end"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::data

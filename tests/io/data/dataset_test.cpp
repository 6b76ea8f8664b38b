#include "dlpipe/dataset.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "io/data/bus_error.h"
#include "tests/io/data/written_dataset.h"

namespace dlpipe::data {
namespace {

struct Shape3 {
  const char* name;
  int64_t records_per_value;
  size_t mean_size;
  bool zstd;
};

class DatasetForms : public testing::TestWithParam<Shape3> {};

TEST_P(DatasetForms, GivesBackEveryRecordAndHeader) {
  const Shape3 form = GetParam();
  TempDir dir;
  const int64_t count = 1203;
  write_dataset(dir / "d", image_schema(form.records_per_value, form.zstd), count, form.mean_size, 97);
  auto dataset = value_or_throw(Dataset::open(dir / "d"));
  ASSERT_EQ(dataset->size(), count);
  EXPECT_EQ(dataset->classes().size(), 2u);
  EXPECT_EQ(dataset->class_counts()[0], 602);
  EXPECT_EQ(dataset->class_counts()[1], 601);
  EXPECT_EQ(dataset->fields()[2].name, "path");
  EXPECT_EQ(dataset->pixel_stats().channels, 3);
  EXPECT_DOUBLE_EQ(dataset->pixel_stats().mean[1], 0.4);
  EXPECT_NEAR(dataset->pixel_stats().std[1], 0.0, 1e-9);
  auto reader = value_or_throw(dataset->reader());
  RandomStream random(1, 1);
  for (int64_t i = 0; i < 2 * count; ++i) {
    const int64_t sample = i < count ? i : random.below(static_cast<uint32_t>(count));
    const RecordHeader header = value_or_throw(dataset->header(sample));
    const auto record = value_or_throw(reader->record(sample));
    ASSERT_EQ(record.size(), header.size_bytes);
    ASSERT_EQ(checksum64(record), header.checksum);
    EXPECT_EQ(header.width, 100 + sample);
    EXPECT_EQ(header.orientation, 6);
    EXPECT_EQ(header.layout, ImageLayout::kJpeg);
    EXPECT_EQ(header.label, sample % 2);
    const RecordView view = value_or_throw(parse_record(*dataset, record));
    const auto expected = bytes_for(sample, form.mean_size);
    ASSERT_TRUE(std::equal(view.image.begin(), view.image.end(), expected.begin(), expected.end()));
    EXPECT_EQ(view.label, sample % 2);
    const auto path = value_or_throw(field_bytes(*dataset, record, "path"));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(path.data()), path.size()),
              "class/" + std::to_string(sample) + ".jpg");
    EXPECT_EQ(value_or_throw(image_bytes(*dataset, record)).data(), view.image.data());
    const auto stored = value_or_throw(reader->stored(sample));
    if (!form.zstd) {
      EXPECT_GE(record.data(), stored.data());
      EXPECT_LE(record.data() + record.size(), stored.data() + stored.size()) << "record() copied";
    }
  }
  EXPECT_EQ(value_or_throw(dataset->skipped()).size(), 12u);
  EXPECT_EQ(value_or_throw(dataset->skipped())[1].path, "bad/103");
  EXPECT_EQ(value_or_throw(dataset->skipped())[1].reason, "corrupt");
}

INSTANTIATE_TEST_SUITE_P(Layouts, DatasetForms,
                         testing::Values(Shape3{"alone", 1, 5000, false}, Shape3{"packed", 37, 300, false},
                                         Shape3{"alone_zstd", 1, 5000, true},
                                         Shape3{"packed_zstd", 16, 800, true},
                                         Shape3{"packed_empty", 64, 1, false}),
                         [](const auto& info) { return info.param.name; });

TEST(DatasetWriter, AContinuedWriterGivesTheSameFileAsOneThatWentOn) {
  for (const int64_t per_value : {1, 37}) {
    const Schema schema = image_schema(per_value);
    TempDir dir;
    write_dataset(dir / "whole", schema, 900, per_value == 1 ? 4000 : 400, 60);
    std::filesystem::create_directories(dir / "parts");
    RecordPacker packer(schema);
    RandomStream random(5, 5);
    while (true) {
      auto writer = value_or_throw(DatasetWriter::open(dir / "parts", schema, kMap));
      ASSERT_EQ(writer->position(), static_cast<uint64_t>(writer->samples()));
      // Goes on for a while and then is dropped with records uncommitted.
      const int64_t until = writer->samples() + 1 + random.below(150);
      for (int64_t sample = writer->samples(); sample < std::min<int64_t>(until, 900); ++sample) {
        expect_ok(writer->add(record_for(packer, sample, per_value == 1 ? 4000 : 400)));
        if (sample % 100 == 3) expect_ok(writer->skip(sample, "bad/" + std::to_string(sample), "corrupt"));
        if ((sample + 1) % 60 == 0) expect_ok(writer->commit(sample + 1));
      }
      if (until < 900) continue;
      expect_ok(writer->finish(900));
      break;
    }
    EXPECT_EQ(file_text(dir / "whole/data.mdb"), file_text(dir / "parts/data.mdb"));
    auto finished = value_or_throw(DatasetWriter::open(dir / "parts", schema, kMap));
    EXPECT_TRUE(finished->finished());
  }
}

TEST(Dataset, IdDependsOnContentsAlone) {
  TempDir dir;
  write_dataset(dir / "a", image_schema(1), 50, 3000, 10);
  write_dataset(dir / "b", image_schema(16, true), 50, 3000, 50);
  write_dataset(dir / "c", image_schema(1), 49, 3000, 10);
  const std::string id = value_or_throw(Dataset::open(dir / "a"))->id();
  EXPECT_EQ(id.size(), 16u);
  EXPECT_EQ(value_or_throw(Dataset::open(dir / "b"))->id(), id);
  EXPECT_NE(value_or_throw(Dataset::open(dir / "c"))->id(), id);
}

TEST(Dataset, OpenSaysWhatIsWrong) {
  TempDir dir;
  const auto message = [](const std::string& path, std::string_view split = {}) {
    return Dataset::open(path, split).status().message();
  };
  EXPECT_NE(message(dir / "none").find("no dataset"), std::string::npos);
  std::filesystem::create_directories(dir / "empty");
  EXPECT_NE(message(dir / "empty").find("no data.mdb"), std::string::npos);
  write_text(dir / "text/data.mdb", "hello");
  EXPECT_FALSE(message(dir / "text").empty());
  write_text(dir / "nothing/data.mdb", "");
  EXPECT_NE(message(dir / "nothing").find("data.mdb is empty; copy or ingest"), std::string::npos)
      << message(dir / "nothing");
  write_text(dir / "zeros/data.mdb", std::string(100'000, '\0'));
  EXPECT_NE(message(dir / "zeros").find("corrupt or not a dataset"), std::string::npos)
      << message(dir / "zeros");

  const Schema schema = image_schema(1);
  std::filesystem::create_directories(dir / "unfinished");
  {
    auto writer = value_or_throw(DatasetWriter::open(dir / "unfinished", schema, kMap));
    RecordPacker packer(schema);
    expect_ok(writer->add(record_for(packer, 0, 100)));
    expect_ok(writer->commit(1));
  }
  EXPECT_NE(message(dir / "unfinished").find("incomplete"), std::string::npos);

  write_dataset(dir / "split/train", schema, 5, 100, 10);
  write_dataset(dir / "split/val", schema, 3, 100, 10);
  EXPECT_EQ(value_or_throw(split_names(dir / "split")), (std::vector<std::string>{"train", "val"}));
  EXPECT_TRUE(value_or_throw(split_names(dir / "nothing")).empty());
  EXPECT_FALSE(split_names(dir / std::string(300, 'x')).ok()) << "whether it holds splits isn't known";
  EXPECT_NE(message(dir / "split").find("holds 2 splits"), std::string::npos);
  EXPECT_NE(message(dir / "split", "test").find("'test'"), std::string::npos);
  EXPECT_EQ(value_or_throw(Dataset::open(dir / "split", "val"))->size(), 3);
  EXPECT_EQ(value_or_throw(Dataset::open(dir / "split/train"))->size(), 5);
  EXPECT_EQ(value_or_throw(Dataset::open(dir / "split/train", "val"))->size(), 5)
      << "a dataset has no splits";
}

TEST(Dataset, AFileCutShortIsRefusedAtOpen) {
  TempDir dir;
  write_dataset(dir / "d", image_schema(1), 40, 20000, 100);
  const std::string whole = file_text(dir / "d/data.mdb");
  for (const size_t keep : {whole.size() - 1, whole.size() / 2, size_t{9000}, size_t{4096}, size_t{100}}) {
    write_text(dir / "d/data.mdb", std::string_view(whole).substr(0, keep));
    const Status status = Dataset::open(dir / "d").status();
    EXPECT_FALSE(status.ok()) << keep;
    EXPECT_NE(status.message().find(dir / "d"), std::string::npos) << status.message();
  }
}

TEST(Dataset, DamagedRecordsShowInTheirChecksum) {
  TempDir dir;
  write_dataset(dir / "d", image_schema(1), 40, 20000, 100);
  std::string whole = file_text(dir / "d/data.mdb");
  const auto victim = bytes_for(17, 20000);
  const size_t at =
      whole.find(std::string_view(reinterpret_cast<const char*>(victim.data()), victim.size())) + 100;
  ASSERT_LT(at, whole.size());
  whole[at] = static_cast<char>(whole[at] ^ 0x40);
  write_text(dir / "d/data.mdb", whole);
  auto dataset = value_or_throw(Dataset::open(dir / "d"));
  auto reader = value_or_throw(dataset->reader());
  for (int64_t sample = 0; sample < 40; ++sample) {
    const bool same = checksum64(value_or_throw(reader->record(sample))) ==
                      value_or_throw(dataset->header(sample)).checksum;
    EXPECT_EQ(same, sample != 17) << sample;
  }
}

TEST(Dataset, SamplesOutsideAreMisuse) {
  TempDir dir;
  write_dataset(dir / "d", image_schema(1), 4, 200, 100);
  auto dataset = value_or_throw(Dataset::open(dir / "d"));
  auto reader = value_or_throw(dataset->reader());
  EXPECT_EQ(dataset->header(4).status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(dataset->header(-1).status().code(), ErrorCode::kMisuse);
  EXPECT_EQ(reader->record(4).status().code(), ErrorCode::kMisuse);
  const auto record = value_or_throw(reader->record(0));
  EXPECT_NE(field_bytes(*dataset, record, "labels").status().message().find("did you mean 'label'"),
            std::string::npos);
  EXPECT_EQ(parse_record(*dataset, record.subspan(0, 5)).status().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(parse_record(*dataset, record.subspan(0, record.size() - 1)).status().code(),
            ErrorCode::kCorrupt);
}

TEST(Dataset, ManyReadersReadAtOnce) {
  TempDir dir;
  write_dataset(dir / "d", image_schema(8), 500, 700, 100);
  auto dataset = value_or_throw(Dataset::open(dir / "d"));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      auto reader = value_or_throw(dataset->reader());
      for (int64_t i = 0; i < 2000; ++i) {
        const int64_t sample = (i * 37 + t) % 500;
        const auto record = value_or_throw(reader->record(sample));
        if (checksum64(record) != value_or_throw(dataset->header(sample)).checksum) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(DatasetWriter, AFullMapIsAMessageAndTheLastCommitStays) {
  TempDir dir;
  const Schema schema = image_schema(1);
  std::filesystem::create_directories(dir / "d");
  RecordPacker packer(schema);
  int64_t committed = 0;
  {
    auto writer = value_or_throw(DatasetWriter::open(dir / "d", schema, 1 << 20));
    Status status;
    for (int64_t sample = 0; sample < 1000 && status.ok(); ++sample) {
      status = writer->add(record_for(packer, sample, 8000));
      if (status.ok() && sample % 20 == 19) {
        status = writer->commit(sample + 1);
        if (status.ok()) committed = sample + 1;
      }
    }
    EXPECT_EQ(status.code(), ErrorCode::kNoSpace);
    EXPECT_NE(status.message().find("--map-size"), std::string::npos) << status.message();
  }
  auto writer = value_or_throw(DatasetWriter::open(dir / "d", schema, 1 << 26));
  EXPECT_EQ(writer->samples(), committed);
  EXPECT_GT(committed, 0);
  for (int64_t sample = committed; sample < 300; ++sample)
    expect_ok(writer->add(record_for(packer, sample, 8000)));
  expect_ok(writer->finish(300));
  EXPECT_EQ(value_or_throw(Dataset::open(dir / "d"))->size(), 300);
}

TEST(RecordLayout, ALateSummaryIsThatOfTheWholeRecordsBegin) {
  const RecordLayout layout(image_schema(1).fields);
  const int64_t label = 4;
  const std::string path = "a/1.jpg";
  for (const size_t size :
       {size_t{0}, size_t{1}, kLateBegin - 1, kLateBegin, kLateBegin + 1, 3 * kLateBegin}) {
    std::vector<std::byte> image(size, std::byte{7});
    std::vector<std::span<const std::byte>> values = {image, std::as_bytes(std::span(&label, 1)),
                                                      std::as_bytes(std::span(path))};
    std::vector<std::byte> record = value_or_throw(layout.build(values));
    const uint64_t begin = value_or_throw(layout.begin_checksum(record));
    for (const size_t known : {std::min(size, kLateBegin), size}) {
      values[0] = std::span(image).first(known);
      const RecordLayout::Summary late = value_or_throw(layout.late_summary(values, size));
      EXPECT_EQ(late.size_bytes, record.size()) << size;
      EXPECT_EQ(late.checksum, begin) << size;
    }
    if (size <= kLateBegin) continue;
    const size_t image_end = record.size() - path.size();
    record[image_end - 1] ^= std::byte{1};
    EXPECT_EQ(value_or_throw(layout.begin_checksum(record)), begin);
    record[image_end] ^= std::byte{1};  // of what follows the image
    EXPECT_NE(value_or_throw(layout.begin_checksum(record)), begin);
  }
}

TEST(DatasetWriter, RefusesClassesWhoseNamesNoReaderTakes) {
  TempDir dir;
  Schema schema = image_schema(1, false);
  schema.classes.assign(700'000, std::string(100, 'c'));
  const auto writer = DatasetWriter::open(dir / "d", schema, kMap);
  ASSERT_EQ(writer.status().code(), ErrorCode::kUnsupported);
  EXPECT_NE(writer.status().message().find("700000 classes"), std::string::npos) << writer.status().message();
}

TEST(PixelStats, OfGreyAndOfColourImagesGoIntoEachOther) {
  const PixelStats grey{1, {0.25}, {0.125}}, colour{3, {0.5, 0.25, 1}, {0.25, 0.25, 0.5}};
  EXPECT_EQ(grey.of_channels(3).mean, (std::array<double, 4>{0.25, 0.25, 0.25}));
  EXPECT_EQ(grey.of_channels(3).std, (std::array<double, 4>{0.125, 0.125, 0.125}));
  EXPECT_NEAR(colour.of_channels(1).mean[0], 0.299 * 0.5 + 0.587 * 0.25 + 0.114, 1e-12);
  EXPECT_NEAR(colour.of_channels(1).std[0], 0.25 + 0.114 * 0.25, 1e-12);
  EXPECT_EQ(colour.of_channels(1).channels, 1);
  EXPECT_EQ(colour.of_channels(3).mean, colour.mean);
  EXPECT_EQ(PixelStats().of_channels(3).channels, 0);
}

// In a child process, which the handler belongs to.
TEST(DatasetDeath, APageThatIsGoneIsNamedBeforeSigbusEndsTheProcess) {
  TempDir dir;
  write_dataset(dir / "d", image_schema(1, false), 300, 5000, 97);
  const auto read_all = [&](bool has_former_handler) {
    std::signal(SIGBUS, SIG_DFL);  // a sanitizer has a handler of its own
    if (has_former_handler) std::signal(SIGBUS, [](int) { ::_exit(7); });
    explain_bus_errors();
    const auto dataset = value_or_throw(Dataset::open(dir / "d"));
    const auto reader = value_or_throw(dataset->reader());
    if (::truncate((dir / "d/data.mdb").c_str(), 0) != 0) ::_exit(1);
    for (int64_t sample = 0; sample < dataset->size(); ++sample)
      checksum64(value_or_throw(reader->record(sample)));
    ::_exit(2);
  };
  std::filesystem::copy(dir / "d", dir / "copy", std::filesystem::copy_options::recursive);
  EXPECT_EXIT(read_all(false), testing::KilledBySignal(SIGBUS), "/d/data.mdb: a page could not be read");
  std::filesystem::remove_all(dir / "d");
  std::filesystem::rename(dir / "copy", dir / "d");
  EXPECT_EXIT(read_all(true), testing::ExitedWithCode(7), "/d/data.mdb: a page could not be read");
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        explain_bus_errors();
        ::raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "^$");
}

}  // namespace
}  // namespace dlpipe::data

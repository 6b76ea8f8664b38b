#include "dlpipe/ingest.h"

#include <cmath>
#include <set>

#include "base/text.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

TEST(Ingest, KeepsEveryFilesBytesLabelAndOrder) {
  TempDir dir;
  write_images(dir / "src", 150, 3, 40);
  const IngestReport report = value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  ASSERT_EQ(report.splits.size(), 1u);
  EXPECT_EQ(report.splits[0].samples, 146);
  EXPECT_EQ(report.skipped.size(), 4u);
  EXPECT_FALSE(report.resumed);
  EXPECT_EQ(report.classes, (std::vector<std::string>{"c0", "c1", "c2"}));
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
  EXPECT_TRUE(std::filesystem::exists(dir / "dst/provenance.json"));
  std::set<std::string> skipped;
  for (const SkippedFile& file : report.skipped) {
    skipped.insert(file.path);
    EXPECT_NE(file.reason.find("corrupt JPEG"), std::string::npos) << file.reason;
  }
  std::string before;
  for (const Sample& sample : samples_of(dir / "dst")) {
    EXPECT_EQ(sample.image, file_text(dir / ("src/" + sample.path)));
    EXPECT_EQ(sample.label, sample.path[1] - '0');
    EXPECT_EQ(sample.header.label, sample.label);
    EXPECT_LT(before, sample.path) << "sorted by bytes";
    EXPECT_EQ(skipped.count(sample.path), 0u);
    before = sample.path;
  }
}

TEST(Ingest, HeadersHoldOrientedSizesOfEveryStoredForm) {
  TempDir dir;
  const std::vector<data::Golden> goldens = data::golden_images();
  for (const data::Golden& golden : goldens)
    write_text(dir / ("src/" + std::string(golden.name[0] < 'h' ? "a/" : "b/") + golden.name),
               to_text(data::read_image(golden.name)));
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  const std::vector<Sample> samples = samples_of(dir / "dst");
  ASSERT_EQ(samples.size(), goldens.size());
  for (const Sample& sample : samples) {
    const std::string name = sample.path.substr(2);
    const auto golden =
        std::find_if(goldens.begin(), goldens.end(), [&](const auto& g) { return g.name == name; });
    ASSERT_NE(golden, goldens.end());
    EXPECT_EQ(sample.header.width, golden->width) << name;
    EXPECT_EQ(sample.header.height, golden->height) << name;
    const bool is_grey =
        name.find("grey") != std::string::npos || name.starts_with("one_bit") || name == "bits_4.pbm";
    EXPECT_EQ(sample.header.channels, is_grey ? 1 : 3) << name;
    EXPECT_EQ(sample.header.orientation == 6, name.substr(0, 6) == "exif_6") << name;
  }
}

TEST(Ingest, PixelStatisticsAreThoseOfAllPixels) {
  TempDir dir;
  double sum[3] = {};
  double squares[3] = {};
  double count = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string text = jpeg_text(static_cast<uint64_t>(i), 10 + i, 20);
    write_text(dir / ("src/" + std::string(i % 2 ? "a/" : "b/") + std::to_string(i) + ".jpg"), text);
    data::Pixels pixels(10 + i, 20, 3);
    const auto bytes = std::as_bytes(std::span(text));
    ASSERT_TRUE(data::ImageDecoder().decode(bytes, {0, 0, 10 + i, 20}, pixels.view()).ok());
    for (size_t p = 0; p < pixels.bytes.size(); ++p) {
      sum[p % 3] += pixels.bytes[p];
      squares[p % 3] += double{1} * pixels.bytes[p] * pixels.bytes[p];
    }
    count += (10 + i) * 20;
  }
  value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  const auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  const data::PixelStats stats = dataset->pixel_stats();
  ASSERT_EQ(stats.channels, 3);
  for (int c = 0; c < 3; ++c) {
    const double mean = sum[c] / count;
    EXPECT_NEAR(stats.mean[c], mean / 255, 1e-12);
    EXPECT_NEAR(stats.std[c], std::sqrt(squares[c] / count - mean * mean) / 255, 1e-9);
  }
}

TEST(Ingest, ThreadsAndWindowDontChangeAByte) {
  TempDir dir;
  write_images(dir / "src", 200, 4, 32);
  IngestOptions options = options_for(dir / "src", dir / "one");
  options.jobs = 1;
  options.commit_entries = 37;
  value_or_throw(ingest(options));
  const auto expected = dataset_files(dir / "one");
  int variant = 0;
  for (const int jobs : {2, 3, 8}) {
    for (const uint64_t window : {uint64_t{1}, uint64_t{3000}, uint64_t{1} << 30}) {
      options.destination = dir / ("other" + std::to_string(variant++));
      options.jobs = jobs;
      options.window_bytes = window;
      value_or_throw(ingest(options));
      EXPECT_TRUE(dataset_files(options.destination) == expected) << jobs << " jobs, window " << window;
    }
  }
}

TEST(Ingest, ResizesLongerSidesAndReencodes) {
  TempDir dir;
  write_text(dir / "src/a/wide.jpg", jpeg_text(1, 90, 30));
  write_text(dir / "src/a/small.jpg", jpeg_text(2, 20, 30));
  write_text(dir / "src/b/turned.jpg", to_text(data::read_image("exif_6.jpg")));  // 18 x 29 as seen
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.resize_max = 30;
  value_or_throw(ingest(options));
  std::vector<Sample> samples = samples_of(dir / "dst");
  EXPECT_EQ(samples[0].image, file_text(dir / "src/a/small.jpg")) << "not larger: its bytes stay";
  EXPECT_EQ(samples[1].header.width, 30);
  EXPECT_EQ(samples[1].header.height, 10);
  EXPECT_EQ(samples[2].header.orientation, 6);
  options.destination = dir / "smaller";
  options.resize_max = 10;
  options.quality = 100;
  value_or_throw(ingest(options));
  samples = samples_of(dir / "smaller");
  EXPECT_EQ(samples[2].header.width, 6);
  EXPECT_EQ(samples[2].header.height, 10);
  EXPECT_EQ(samples[2].header.orientation, 1) << "re-coded images are stored as seen";
  EXPECT_EQ(data::probe_image(std::as_bytes(std::span(samples[2].image)))->height, 10);
}

TEST(Ingest, StoresWhatIsAskedFor) {
  TempDir dir;
  write_text(dir / "src/a/1.jpg", jpeg_text(1, 20, 16));
  write_text(dir / "src/b/2.png", to_text(data::read_image("rgb.png")));
  write_text(dir / "src/b/3.jpg", to_text(data::read_image("grey.jpg")));
  const auto layouts = [&](const std::string& name, Store store, bool zstd) {
    IngestOptions options = options_for(dir / "src", dir / name);
    options.store = store;
    options.zstd = zstd;
    value_or_throw(ingest(options));
    std::vector<data::ImageLayout> all;
    for (const Sample& sample : samples_of(dir / name)) all.push_back(sample.header.layout);
    return all;
  };
  using enum data::ImageLayout;
  EXPECT_EQ(layouts("auto", Store::kAuto, false), (std::vector{kJpeg, kPng, kJpeg}));
  EXPECT_EQ(layouts("jpeg", Store::kJpeg, false), (std::vector{kJpeg, kJpeg, kJpeg}));
  EXPECT_EQ(layouts("raw", Store::kRaw, false), (std::vector{kRaw, kRaw, kRaw}));
  EXPECT_EQ(layouts("zstd", Store::kRaw, true), (std::vector{kRaw, kRaw, kRaw}));
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "raw"))->id(),
            value_or_throw(data::Dataset::open(dir / "zstd"))->id());
  // Raw pixels are those of the file.
  const std::vector<Sample> raw = samples_of(dir / "raw");
  data::Pixels expected(53, 37, 1);
  data::Pixels got(53, 37, 1);
  ASSERT_TRUE(
      data::ImageDecoder().decode(data::read_image("grey.jpg"), {0, 0, 53, 37}, expected.view()).ok());
  ASSERT_EQ(raw[2].header.channels, 1);
  ASSERT_TRUE(
      data::ImageDecoder().decode(std::as_bytes(std::span(raw[2].image)), {0, 0, 53, 37}, got.view()).ok());
  EXPECT_EQ(got.bytes, expected.bytes);
}

TEST(Ingest, JpegsMayStandAsCoefficients) {
  TempDir dir;
  write_text(dir / "src/a/1.jpg", jpeg_text(1, 200, 160));
  write_text(dir / "src/a/2.png", to_text(data::read_image("rgb.png")));
  write_text(dir / "src/b/3.jpg", to_text(data::read_image("exif_6.jpg")));
  write_text(dir / "src/b/4.jpg", to_text(data::read_image("cmyk.jpg")));
  IngestOptions options = options_for(dir / "src", dir / "standard");
  value_or_throw(ingest(options));
  using enum data::ImageLayout;
  for (const bool trust : {false, true}) {
    options.destination = dir / (trust ? "trusted" : "checked");
    options.jpeg = JpegLayout::kCoefficients;
    options.trust = trust;
    const IngestReport report = value_or_throw(ingest(options));
    EXPECT_TRUE(report.skipped.empty());
    const std::vector<Sample> standard = samples_of(dir / "standard");
    const std::vector<Sample> samples = samples_of(options.destination);
    ASSERT_EQ(samples.size(), 4u);
    for (size_t i = 0; i < samples.size(); ++i) {
      const data::RecordHeader& header = samples[i].header;
      EXPECT_EQ(header.layout, i == 1 ? kPng : kCoefficients) << i;
      EXPECT_EQ(header.width, standard[i].header.width);
      EXPECT_EQ(header.orientation, standard[i].header.orientation);
      data::Pixels expected(header.width, header.height, 3);
      data::Pixels got(header.width, header.height, 3);
      data::ImageDecoder decoder;
      for (auto* pair : {&expected, &got}) {
        const std::string& bytes = pair == &got ? samples[i].image : standard[i].image;
        const auto image = std::as_bytes(std::span(bytes));
        ASSERT_TRUE(decoder
                        .decode_oriented(image, *data::probe_image(image),
                                         {0, 0, header.width, header.height}, pair->view())
                        .ok());
      }
      EXPECT_EQ(got.bytes, expected.bytes) << i;
    }
  }
  options.destination = dir / "indexed";
  options.jpeg = JpegLayout::kRestart;
  value_or_throw(ingest(options));
  const std::vector<Sample> indexed = samples_of(dir / "indexed");
  for (size_t i = 0; i < indexed.size(); ++i)
    EXPECT_EQ(indexed[i].header.layout, i == 1 ? kPng : kRestart) << i;
  // By default where that takes no more bytes.
  options.destination = dir / "default";
  options.jpeg = IngestOptions().jpeg;
  value_or_throw(ingest(options));
  const std::vector<Sample> standard = samples_of(dir / "standard");
  const std::vector<Sample> coefficients = samples_of(dir / "checked");
  const std::vector<Sample> by_default = samples_of(dir / "default");
  int chosen = 0;
  for (size_t i = 0; i < by_default.size(); ++i) {
    const double share =
        static_cast<double>(coefficients[i].image.size()) / static_cast<double>(standard[i].image.size());
    const bool is_chosen = i != 1 && share <= data::kMostBytesByDefault;
    EXPECT_EQ(by_default[i].image, is_chosen ? coefficients[i].image : standard[i].image) << i;
    chosen += is_chosen ? 1 : 0;
  }
  EXPECT_GT(chosen, 0);
  options.jpeg = JpegLayout::kCoefficients;
  // Re-coded images too.
  options.destination = dir / "smaller";
  options.resize_max = 30;
  options.trust = false;
  value_or_throw(ingest(options));
  for (const Sample& sample : samples_of(dir / "smaller")) EXPECT_EQ(sample.header.layout, kCoefficients);
}

TEST(Ingest, SplitsAreStratifiedAndKeyedBySeedAndPath) {
  TempDir dir;
  for (int i = 0; i < 100; ++i)
    write_text(dir / ("src/" + std::string(i < 60 ? "a/" : "b/") + std::to_string(i) + ".jpg"),
               jpeg_text(7, 9, 9));
  IngestOptions options = options_for(dir / "src", dir / "one");
  options.split = {0.8, 0.2};
  options.seed = 5;
  const IngestReport report = value_or_throw(ingest(options));
  ASSERT_EQ(report.splits.size(), 2u);
  EXPECT_EQ(report.splits[0].name, "train");
  EXPECT_EQ(report.splits[1].name, "val");
  const auto paths = [](const std::vector<Sample>& samples) {
    std::set<std::string> all;
    for (const Sample& sample : samples) all.insert(sample.path);
    return all;
  };
  const auto train = paths(samples_of(dir / "one", "train"));
  const auto val = paths(samples_of(dir / "one/val"));
  EXPECT_EQ(train.size(), 80u);
  EXPECT_EQ(std::count_if(val.begin(), val.end(), [](const std::string& p) { return p[0] == 'a'; }), 12);
  EXPECT_EQ(std::count_if(val.begin(), val.end(), [](const std::string& p) { return p[0] == 'b'; }), 8);
  for (const std::string& path : val) EXPECT_EQ(train.count(path), 0u);
  options.destination = dir / "same";
  value_or_throw(ingest(options));
  EXPECT_TRUE(dataset_files(dir / "same") == dataset_files(dir / "one"));
  options.destination = dir / "other";
  options.seed = 6;
  value_or_throw(ingest(options));
  EXPECT_NE(paths(samples_of(dir / "other/val")), val);
}

TEST(Ingest, LimitTakesFilesOfAllClasses) {
  TempDir dir;
  for (int i = 0; i < 90; ++i)
    write_text(dir / ("src/c" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg"),
               jpeg_text(7, 9, 9));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.limit = 30;
  EXPECT_EQ(value_or_throw(ingest(options)).splits[0].samples, 30);
  std::set<int64_t> labels;
  for (const Sample& sample : samples_of(dir / "dst")) labels.insert(sample.label);
  EXPECT_EQ(labels.size(), 3u);
}

TEST(Ingest, MasksThatWereDrawnToBeSeenAreNamed) {
  TempDir dir;
  const auto said = [&](uint8_t object, uint8_t edge) {
    data::Pixels mask(9, 9, 1);
    std::fill(mask.bytes.begin(), mask.bytes.end(), uint8_t{0});
    mask.bytes[40] = object;
    mask.bytes[41] = edge;
    write_text(dir / "src/images/1.jpg", jpeg_text(7, 9, 9));
    write_text(dir / "src/masks/1.png", to_text(value_or_throw(data::encode_png(mask.view()))));
    const std::string made = dir / ("made" + std::to_string(object) + "-" + std::to_string(edge));
    std::string all;
    for (const std::string& warning : value_or_throw(ingest(options_for(dir / "src", made))).warnings)
      all += warning + "\n";
    return all;
  };
  expect_part(said(255, 255), "the masks of the field 'mask' contain only 0 and 255 (1 was checked)");
  for (const auto& [object, edge] : {std::pair(1, 255), std::pair(0, 0), std::pair(1, 1)})
    EXPECT_EQ(said(static_cast<uint8_t>(object), static_cast<uint8_t>(edge)).find("contain only"),
              std::string::npos);
}

TEST(Ingest, AnEmptyFileIsACorruptMaskAndNotNone) {
  TempDir dir;
  std::vector<uint8_t> pixels(9 * 9, 1);
  for (const char* name : {"1", "2"}) {
    write_text(dir / ("src/images/" + std::string(name) + ".jpg"), jpeg_text(7, 9, 9));
    write_text(dir / ("src/masks/" + std::string(name) + ".png"),
               to_text(value_or_throw(data::encode_png({pixels.data(), 9, 9, 1, 9}))));
  }
  write_text(dir / "src/masks/2.png", "");
  const IngestReport report = value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  EXPECT_EQ(report.splits.at(0).samples, 1);
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].reason, "the file of its mask is empty");
}

TEST(Ingest, ClassOrderCanComeFromAnotherDataset) {
  TempDir dir;
  for (const char* file :
       {"one/bird/1.jpg", "one/cat/1.jpg", "one/dog/1.jpg", "two/cat/1.jpg", "two/dog/1.jpg"})
    write_text(dir / file, jpeg_text(7, 9, 9));
  IngestOptions first = options_for(dir / "one", dir / "d1");
  value_or_throw(ingest(first));
  IngestOptions second = options_for(dir / "two", dir / "d2");
  second.classes_from = dir / "d1";
  value_or_throw(ingest(second));
  const auto dataset = value_or_throw(data::Dataset::open(dir / "d2"));
  EXPECT_EQ(dataset->classes().size(), 3u);
  EXPECT_EQ(samples_of(dir / "d2")[0].label, 1);
  write_text(dir / "two/cta/1.jpg", jpeg_text(7, 9, 9));
  second.destination = dir / "d3";
  const Status status = ingest(second).status();
  EXPECT_NE(status.message().find("class 'cta' is not in --classes-from"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("did you mean 'cat'"), std::string::npos) << status.message();
}

TEST(Ingest, ClassOrderOfAnotherDatasetIsRefusedWhereMasksHoldTheirOwn) {
  TempDir dir;
  for (const char* file : {"one/ant/1.jpg", "one/zebra/1.jpg", "two/1.jpg"})
    write_text(dir / file, jpeg_text(7, 9, 9));
  value_or_throw(ingest(options_for(dir / "one", dir / "d1")));
  std::vector<uint8_t> pixels(9 * 9, 1);
  write_text(dir / "two/m.png", to_text(value_or_throw(data::encode_png({pixels.data(), 9, 9, 1, 9}))));
  const std::string rest = "\n{\"path\": \"1.jpg\", \"label\": \"ant\", \"mask\": \"m.png\"}\n";
  write_text(dir / "two/list.jsonl", R"({"fields": ["mask:mask"], "classes": ["zebra", "ant"]})" + rest);
  IngestOptions options = options_for(dir / "two/list.jsonl", dir / "d2");
  options.classes_from = dir / "d1";
  const Status status = ingest(options).status();
  EXPECT_NE(status.message().find("list.jsonl has masks whose pixels are class numbers, and its class "
                                  "'zebra' would get number 1 instead of 0; "),
            std::string::npos)
      << status.message();
  write_text(dir / "two/list.jsonl", R"({"fields": ["mask:mask"], "classes": ["ant"]})" + rest);
  value_or_throw(ingest(options));
}

TEST(Ingest, ClassesCalledByOtherNumbersThanTheirLabelsAreWarnedOf) {
  TempDir dir;
  for (const char* file : {"gap/0/1.jpg", "gap/10/1.jpg", "gap/2/1.jpg", "whole/0/1.jpg", "whole/1/1.jpg"})
    write_text(dir / file, jpeg_text(7, 9, 9));
  const auto warned = [&](const IngestOptions& options) {
    std::string text;
    for (const std::string& warning : value_or_throw(ingest(options)).warnings) text += warning + "\n";
    return text;
  };
  EXPECT_NE(warned(options_for(dir / "gap", dir / "d1"))
                .find("class '10' becomes label 1, because folders are sorted as strings"),
            std::string::npos);
  EXPECT_EQ(warned(options_for(dir / "whole", dir / "d2")).find("becomes label"), std::string::npos);
  IngestOptions taken = options_for(dir / "whole", dir / "d3");
  taken.classes_from = dir / "d2";
  EXPECT_EQ(warned(taken).find("becomes label"), std::string::npos);
  write_text(dir / "list.csv",
             "path,label\ngap/0/1.jpg,0\ngap/10/1.jpg,-1\ngap/2/1.jpg,1\nwhole/0/1.jpg,0\n");
  const std::string below_zero = warned(options_for(dir / "list.csv", dir / "d4"));
  EXPECT_NE(below_zero.find("class '-1' becomes label 0, like the other classes (leave its samples out if it "
                            "means that they have no class), and so on; --classes-from"),
            std::string::npos)
      << below_zero;
}

TEST(Ingest, FurtherColumnsOfAManifestBecomeFields) {
  TempDir dir;
  write_text(dir / "src/1.jpg", jpeg_text(1, 9, 9));
  write_text(dir / "src/2.jpg", jpeg_text(2, 9, 9));
  write_text(dir / "src/list.csv", "path,label,camera\n2.jpg,dog,left\n1.jpg,cat,right\n");
  value_or_throw(ingest(options_for(dir / "src/list.csv", dir / "dst")));
  const auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  auto reader = value_or_throw(dataset->reader());
  const auto record = value_or_throw(reader->record(1));
  EXPECT_EQ(to_text(value_or_throw(data::field_bytes(*dataset, record, "camera"))), "left");
  EXPECT_EQ(value_or_throw(dataset->header(1)).label, 1);
}

// Names for people and for splits: absolute ones lose their slash.
TEST(Ingest, NamesStandFromTheListsFolderWhereTheyAreBelowIt) {
  TempDir dir;
  for (const char* name : {"src/a", "src/deep/b.jpg", "beside.jpg"})
    write_text(dir / name, jpeg_text(1, 9, 9));
  write_text(dir / "src/list.csv", concat("path,label\na,x\ndeep/b.jpg,x\n", dir / "beside.jpg", ",x\n"));
  value_or_throw(ingest(options_for(dir / "src/list.csv", dir / "dst")));
  std::set<std::string> paths;
  for (const Sample& sample : samples_of(dir / "dst")) paths.insert(sample.path);
  EXPECT_EQ(paths, (std::set<std::string>{"a", "deep/b.jpg", (dir / "beside.jpg").substr(1)}));
}

TEST(Ingest, PacksSmallRecordsAndLeavesLargeOnesAlone) {
  TempDir dir;
  write_images(dir / "small", 60, 2, 12);
  for (int i = 0; i < 6; ++i)
    write_text(dir / ("large/" + std::string(i % 2 ? "a/" : "b/") + std::to_string(i) + ".jpg"),
               jpeg_text(3, 320, 320));
  value_or_throw(ingest(options_for(dir / "small", dir / "s")));
  value_or_throw(ingest(options_for(dir / "large", dir / "l")));
  EXPECT_GT(value_or_throw(data::Dataset::open(dir / "s"))->records_per_value(), 10);
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "l"))->records_per_value(), 1);
}

TEST(Ingest, ReportsProgressAndStages) {
  TempDir dir;
  write_images(dir / "src", 80, 2, 60);
  IngestProgress last;
  const IngestReport report = value_or_throw(ingest(
      options_for(dir / "src", dir / "dst"), [&](const IngestProgress& progress) { last = progress; }));
  EXPECT_EQ(last.done, 80);
  EXPECT_EQ(last.total, 80);
  EXPECT_EQ(last.skipped, 3);
  EXPECT_GT(last.bytes_done, 0u);
  EXPECT_EQ(report.stages.size(), 4u);
  EXPECT_FALSE(report.limiting.empty());
}

}  // namespace
}  // namespace dlpipe::ingest

// What people bring: published train and val folders, lists with a column of splits, classes with few images, files
// that can't be read.
#include <set>

#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

std::string all_warnings(const IngestReport& report) {
  std::string all;
  for (const std::string& warning : report.warnings) all += warning + "\n";
  return all;
}

void expect_misuse(const Status& status, std::initializer_list<const char*> parts) {
  EXPECT_EQ(status.code(), ErrorCode::kMisuse) << status.message();
  for (const char* part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(PublishedSplits, ThatHaveATestAndNoValAreToldHowToValidate) {
  TempDir dir;
  write_images(dir / "src/train", 12, 2, 24);
  write_images(dir / "src/test", 4, 2, 24);
  const std::string said = all_warnings(value_or_throw(ingest(options_for(dir / "src", dir / "dst"))));
  EXPECT_NE(
      said.find("[ingest] the splits are 'test', 'train', without 'val'; to validate on 'test', add --val " +
                (dir / "dst") + "/test to `dlpipe train`"),
      std::string::npos)
      << said;
  const auto mentions = [&](const std::string& word) {
    size_t count = 0;
    for (size_t at = said.find(word); at != std::string::npos; at = said.find(word, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(mentions("--val"), 1u) << said;
  EXPECT_EQ(mentions("--split"), 0u) << "folders taken literally are classes: " << said;
  write_images(dir / "src/val", 4, 2, 24);
  const std::string whole = all_warnings(value_or_throw(ingest(options_for(dir / "src", dir / "all"))));
  EXPECT_EQ(whole.find("without 'val'"), std::string::npos) << whole;
}

TEST(PublishedSplits, AreTheSameDatasetsAsTheirFoldersAlone) {
  TempDir dir;
  write_images(dir / "src/train", 60, 3, 24);
  write_images(dir / "src/valid", 20, 2, 24);  // the third class has none there
  const IngestReport report = value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  ASSERT_EQ(report.splits.size(), 2u);
  EXPECT_EQ(report.splits[0].name, "train");
  EXPECT_EQ(report.splits[1].name, "val");
  EXPECT_EQ(report.classes, (std::vector<std::string>{"c0", "c1", "c2"}));
  EXPECT_NE(all_warnings(report).find("val has no sample of 1 of 3 classes: 'c2'"), std::string::npos)
      << all_warnings(report);
  value_or_throw(ingest(options_for(dir / "src/train", dir / "train")));
  IngestOptions val = options_for(dir / "src/valid", dir / "val");
  val.classes_from = dir / "train";
  value_or_throw(ingest(val));
  EXPECT_EQ(report.splits[0].id, value_or_throw(data::Dataset::open(dir / "train"))->id());
  EXPECT_EQ(report.splits[1].id, value_or_throw(data::Dataset::open(dir / "val"))->id());
  EXPECT_EQ(samples_of(dir / "dst", "val").front().path, "c0/1000.jpg") << "named without the split's folder";
}

// torchvision sorts folders as texts, and its labels are what people have.
TEST(NumberedFolders, AreSortedAsTextsUnlessAnotherOrderIsGiven) {
  TempDir dir;
  for (const int number : {0, 1, 2, 10})
    write_text(dir / ("src/" + std::to_string(number) + "/a.jpg"),
               jpeg_text(static_cast<uint64_t>(number), 8, 8));
  const IngestReport plain = value_or_throw(ingest(options_for(dir / "src", dir / "plain")));
  EXPECT_EQ(plain.classes, (std::vector<std::string>{"0", "1", "10", "2"}));
  expect_part(
      all_warnings(plain),
      "numbers that differ from their labels: class '10' becomes label 2, because folders are sorted as "
      "strings, as torchvision's ImageFolder does; for the order of the numbers, use --classes-from FILE");
  IngestOptions given = options_for(dir / "src", dir / "given");
  given.classes_from = dir / "classes.txt";
  write_text(dir / "classes.txt",
             "\xef\xbb\xbf"
             "0\n1\n2\n10\n");  // as Notepad writes it
  const IngestReport as_numbers = value_or_throw(ingest(given));
  EXPECT_EQ(as_numbers.classes, (std::vector<std::string>{"0", "1", "2", "10"}));
  EXPECT_EQ(all_warnings(as_numbers), "");
  write_text(dir / "classes.txt", "0\n1\n10\n1\n2\n");
  given.destination = dir / "twice";
  expect_misuse(ingest(given).status(), {"classes.txt names '1' twice"});
}

TEST(PublishedSplits, AreTakenLiterallyWhenAsked) {
  TempDir dir;
  write_images(dir / "src/train", 12, 2, 20);
  write_images(dir / "src/val", 6, 2, 20);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.no_splits = true;
  const IngestReport report = value_or_throw(ingest(options));
  EXPECT_EQ(report.splits.size(), 1u);
  EXPECT_EQ(report.classes, (std::vector<std::string>{"train", "val"}));
  // Another decision about the same folder is another ingest.
  options.no_splits = false;
  expect_misuse(ingest(options).status(), {"already exists", "--no-splits"});
  options.destination = dir / "split";
  options.no_splits = true;
  options.split = {0.5, 0.5};
  EXPECT_EQ(value_or_throw(ingest(options)).splits.size(), 2u) << "--split cuts what is taken literally";
}

TEST(PublishedSplits, AndTheOptionSplitAreRefusedTogether) {
  TempDir dir;
  write_images(dir / "src/train", 12, 2, 20);
  write_images(dir / "src/val", 6, 2, 20);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.split = {0.9, 0.1};
  expect_misuse(ingest(options).status(), {"--split", "'train', 'val'", dir.path().c_str()});
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
}

TEST(PublishedSplits, ThatALimitLeavesEmptyAreNamed) {
  TempDir dir;
  write_images(dir / "src/train", 60, 2, 20);
  write_text(dir / "src/val/c0/1.jpg", jpeg_text(1, 9, 9));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.limit = 3;
  const IngestReport report = value_or_throw(ingest(options));
  EXPECT_EQ(report.splits.size(), 1u);
  EXPECT_NE(all_warnings(report).find("--limit leaves no file for val"), std::string::npos)
      << all_warnings(report);
}

TEST(Manifests, AColumnOfSplitsMakesThem) {
  TempDir dir;
  std::string list = "path,label,split\n";
  for (int i = 0; i < 12; ++i) {
    const std::string name = std::to_string(i) + ".jpg";
    write_text(dir / ("src/" + name), jpeg_text(static_cast<uint64_t>(i), 20, 20));
    list += name + (i % 2 == 0 ? ",even," : ",odd,") + (i < 8 ? "train" : "validation") + "\n";
  }
  write_text(dir / "src/list.csv", list);
  IngestOptions options = options_for(dir / "src/list.csv", dir / "dst");
  value_or_throw(ingest(options));
  EXPECT_EQ(samples_of(dir / "dst", "train").size(), 8u);
  EXPECT_EQ(samples_of(dir / "dst", "val").size(), 4u);
  options.destination = dir / "other";
  options.split = {0.5, 0.5};
  expect_misuse(ingest(options).status(), {"--split", "has its own splits"});
}

TEST(Manifests, AMissingFileIsSkippedOrStopsAsAsked) {
  TempDir dir;
  write_text(dir / "src/1.jpg", jpeg_text(1, 20, 20));
  write_text(dir / "src/2.jpg", jpeg_text(2, 20, 20));
  write_text(dir / "src/list.csv", "1.jpg,a\nnone.jpg,b\n2.jpg,b\n");
  IngestOptions options = options_for(dir / "src/list.csv", dir / "dst");
  options.on_error = OnError::kStop;
  const Status stopped = ingest(options).status();
  EXPECT_NE(stopped.message().find("none.jpg: "), std::string::npos) << stopped.message();
  EXPECT_NE(stopped.message().find("line 2: there is no file"), std::string::npos) << stopped.message();
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial")) << "known before anything is stored";
  options.on_error = OnError::kSkip;
  const IngestReport report = value_or_throw(ingest(options));
  EXPECT_EQ(report.splits[0].samples, 2);
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].path, "none.jpg");
  EXPECT_NE(report.skipped[0].reason.find("line 2: there is no file"), std::string::npos);
  write_text(dir / "src/list.csv", "none.jpg,a\ngone.jpg,b\n");
  options.destination = dir / "nothing";
  const Status nothing = ingest(options).status();
  EXPECT_NE(nothing.message().find("no usable image"), std::string::npos) << nothing.message();
  EXPECT_NE(nothing.message().find("there is no file"), std::string::npos) << nothing.message();
}

TEST(Manifests, AbsolutePathsGoThereAndBack) {
  TempDir dir;
  write_text(dir / "a/1.jpg", jpeg_text(1, 20, 20));
  write_text(dir / "b/2.jpg", jpeg_text(2, 20, 20));
  write_text(dir / "list.csv", dir / "a/1.jpg" + ",x\n" + (dir / "b/2.jpg") + ",y\n");
  IngestOptions options = options_for(dir / "a", dir / "dst");
  options.manifest = dir / "list.csv";
  value_or_throw(ingest(options));
  std::set<std::string> names;
  for (const Sample& sample : samples_of(dir / "dst")) names.insert(sample.path);
  EXPECT_EQ(names, (std::set<std::string>{"1.jpg", (dir / "b/2.jpg").substr(1)}));
}

TEST(Manifests, TooManyColumnsAreRefusedBeforeAnythingIsWritten) {
  TempDir dir;
  std::string head = "path,label";
  std::string line = "1.jpg,a";
  for (int i = 0; i < 1023; ++i) {
    head += ",c" + std::to_string(i);
    line += ",0";
  }
  write_text(dir / "src/1.jpg", jpeg_text(1, 20, 20));
  write_text(dir / "src/list.csv", head + "\n" + line + "\n");
  expect_misuse(ingest(options_for(dir / "src/list.csv", dir / "dst")).status(),
                {"1025 columns", "at most 1024"});
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
}

TEST(ClassNames, ThatAreOneNameInUtf8AreRefused) {
  TempDir dir;
  write_text(dir / "src/a\xfe/1.jpg", jpeg_text(1, 20, 20));
  write_text(dir / "src/a\xff/1.jpg", jpeg_text(2, 20, 20));
  expect_misuse(ingest(options_for(dir / "src", dir / "dst")).status(),
                {"'a\\xfe', 'a\\xff' differ only in bytes that are"});
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
}

TEST(SplitOption, NamesClassesThatAreTooRareForEverySplit) {
  TempDir dir;
  for (int i = 0; i < 40; ++i)
    write_text(dir / ("src/many/" + std::to_string(i) + ".jpg"), jpeg_text(7, 9, 9));
  for (const char* rare : {"src/rare\n/1.jpg", "src/seldom/1.jpg", "src/seldom/2.jpg"})
    write_text(dir / rare, jpeg_text(7, 9, 9));
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.split = {0.9, 0.1};
  const IngestReport report = value_or_throw(ingest(options));
  EXPECT_NE(all_warnings(report).find(
                "val has no sample of 2 of 3 classes: 'rare\\n', 'seldom'; they have too few"),
            std::string::npos)
      << all_warnings(report);
}

TEST(SplitOption, SaysWhereSmallClassesMakeOtherShares) {
  TempDir dir;
  write_images(dir / "src", 60, 10, 9);
  IngestOptions options = options_for(dir / "src", dir / "small");
  options.split = {0.9, 0.1};
  EXPECT_NE(
      all_warnings(value_or_throw(ingest(options)))
          .find("val has 16.7 % of the samples, but --split is 10.0 %: each class is divided separately"),
      std::string::npos);
  write_images(dir / "large", 100, 10, 9);
  IngestOptions fair = options_for(dir / "large", dir / "fair");
  fair.split = options.split;
  EXPECT_EQ(all_warnings(value_or_throw(ingest(fair))).find("% of the samples"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::ingest

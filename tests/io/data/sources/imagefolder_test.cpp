#include <gtest/gtest.h>

#include <map>

#include "dlpipe/source.h"
#include "io/data/sources/typed_columns.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

class ImageFolderSource : public testing::Test {
 protected:
  Result<SourceListing> list(SourceOptions options = {}) {
    if (options.path.empty()) options.path = dir.path();
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  std::string message() { return list().status().message(); }
  void write_images(std::initializer_list<const char*> files) {
    for (const char* file : files) write_text(dir / file, file);
  }
  /// "split name" of each image that can be read -> its class.
  static std::map<std::string, std::string> classes_of(const SourceListing& listing) {
    std::map<std::string, std::string> found;
    for (const SourceEntry& entry : listing.entries) {
      if (!entry.problem.empty()) continue;
      found[entry.split + " " + std::string(entry.name())] =
          entry.label < 0 ? "-" : listing.classes.at(static_cast<size_t>(entry.label));
    }
    return found;
  }
  /// Path -> why it can't be read.
  static std::map<std::string, std::string> problems_of(const SourceListing& listing) {
    std::map<std::string, std::string> found;
    for (const SourceEntry& entry : listing.entries)
      if (!entry.problem.empty()) found[entry.path] = entry.problem;
    return found;
  }
  static const SourceEntry& entry_at(const SourceListing& listing, const std::string& path) {
    for (const SourceEntry& entry : listing.entries)
      if (entry.path == path) return entry;
    throw std::out_of_range(path);
  }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

using Found = std::map<std::string, std::string>;

TEST_F(ImageFolderSource, MetadataGivesLabelsAndTexts) {
  write_images({"1.jpg", "deep/2.jpg"});
  write_text(dir / "metadata.csv",
             "file_name,text,label\n1.jpg,\"a cat, asleep\",cat\ndeep/2.jpg,a dog,dog\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"text"});
  EXPECT_EQ(classes_of(listing), (Found{{" 1.jpg", "cat"}, {" deep/2.jpg", "dog"}}));
  EXPECT_EQ(entry_at(listing, "1.jpg").extra, std::vector<std::string>{"a cat, asleep"});
  EXPECT_EQ(value_or_throw(source_->read(entry_at(listing, "deep/2.jpg"))).size(), 10u);
  EXPECT_EQ(value_or_throw(source_->where(entry_at(listing, "1.jpg"))).file, dir / "1.jpg");
  EXPECT_NE(
      warnings_of(listing).find("is read as Hugging Face's imagefolder: metadata.csv names the images in "
                                "'file_name' and their classes in 'label'"),
      std::string::npos)
      << warnings_of(listing);
}

TEST_F(ImageFolderSource, ImagesWithoutALabelAmongOthersAreProblemsAsInLists) {
  write_images({"1.jpg", "2.jpg", "3.jpg"});
  const auto problems = [&](const char* file, const char* rows) {
    std::filesystem::remove(dir / "metadata.csv");
    std::filesystem::remove(dir / "metadata.jsonl");
    write_text(dir / file, rows);
    const SourceListing listing = value_or_throw(list());
    std::string all;
    for (const char* image : {"1.jpg", "2.jpg", "3.jpg"})
      all += entry_at(listing, image).problem.empty() ? "-" : "p";
    EXPECT_EQ(listing.classes, std::vector<std::string>{"cat"}) << file;
    return all;
  };
  EXPECT_EQ(
      problems("metadata.jsonl",
               "{\"file_name\": \"1.jpg\", \"label\": \"cat\"}\n{\"file_name\": \"2.jpg\", \"label\": null}\n"
               "{\"file_name\": \"3.jpg\"}\n"),
      "-pp");
  EXPECT_EQ(problems("metadata.csv", "file_name,label\n1.jpg,cat\n2.jpg,\n3.jpg,nan\n"), "-pp");
}

TEST_F(ImageFolderSource, SplitFoldersWithAMetadataFileEachMakeSplitsOfOneClassTable) {
  write_images({"train/1.jpg", "train/2.jpg", "validation/1.jpg", "test/1.jpg"});
  write_text(dir / "train/metadata.jsonl",
             "{\"file_name\": \"1.jpg\", \"label\": 7}\n{\"file_name\": \"2.jpg\", \"label\": 10}\n");
  write_text(dir / "validation/metadata.jsonl", "{\"file_name\": \"1.jpg\", \"label\": 10}\n");
  write_text(dir / "test/metadata.jsonl", "{\"file_name\": \"1.jpg\", \"label\": null}\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"7", "10"}));
  EXPECT_EQ(classes_of(listing),
            (Found{{"train 1.jpg", "7"}, {"train 2.jpg", "10"}, {"val 1.jpg", "10"}, {"test 1.jpg", "-"}}));
  const std::string all = warnings_of(listing);
  EXPECT_NE(all.find("are splits: 'test', 'train', 'validation' as val; --no-splits"), std::string::npos)
      << all;
  EXPECT_NE(all.find("1 image has no label"), std::string::npos) << all;
  EXPECT_EQ(entry_at(listing, "test/1.jpg").problem, "");
  const SourceListing literal = value_or_throw(list({.path = dir.path(), .splits = false}));
  EXPECT_NE(entry_at(literal, "test/1.jpg").problem.find("its 'label' in the metadata is empty"),
            std::string::npos);
  EXPECT_EQ(classes_of(literal),
            (Found{{" train/1.jpg", "7"}, {" train/2.jpg", "10"}, {" validation/1.jpg", "10"}}));
}

TEST_F(ImageFolderSource, OneMetadataFileAboveTheSplitsAndClassFoldersWillDo) {
  write_images({"train/cat/1.jpg", "train/dog/2.jpg", "val/cat/3.jpg"});
  write_text(dir / "metadata.csv",
             "file_name,text\ntrain/cat/1.jpg,a\ntrain/dog/2.jpg,b\n./val/cat/3.jpg,c\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(classes_of(listing),
            (Found{{"train cat/1.jpg", "cat"}, {"train dog/2.jpg", "dog"}, {"val cat/3.jpg", "cat"}}));
  EXPECT_EQ(entry_at(listing, "val/cat/3.jpg").extra, std::vector<std::string>{"c"});
  EXPECT_NE(warnings_of(listing).find("their folders are their classes"), std::string::npos)
      << warnings_of(listing);
}

TEST_F(ImageFolderSource, ALoneSplitFolderIsNeitherASplitNorAClass) {
  write_images({"train/cat/1.jpg", "train/dog/2.jpg"});
  write_text(dir / "train/metadata.csv", "file_name,text\ncat/1.jpg,a\ndog/2.jpg,b\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(classes_of(listing), (Found{{" cat/1.jpg", "cat"}, {" dog/2.jpg", "dog"}}));
  EXPECT_EQ(value_or_throw(source_->read(entry_at(listing, "train/dog/2.jpg"))).size(), 15u);
}

TEST_F(ImageFolderSource, MetadataMayLieInClassFolders) {
  write_images({"train/cat/1.jpg", "train/dog/2.jpg", "test/cat/3.jpg"});
  write_text(dir / "train/cat/metadata.csv", "file_name,text\n1.jpg,a\n");
  write_text(dir / "train/dog/metadata.csv", "text,file_name\nb,2.jpg\n");
  write_text(dir / "test/cat/metadata.csv", "file_name,text,more\n3.jpg,c,d\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(classes_of(listing),
            (Found{{"train cat/1.jpg", "cat"}, {"train dog/2.jpg", "dog"}, {"test cat/3.jpg", "cat"}}));
  ASSERT_EQ(field_names(listing).size(), 2u);
  const bool text_is_first = field_names(listing)[0] == "text";
  EXPECT_EQ(entry_at(listing, "train/dog/2.jpg").extra[text_is_first ? 0 : 1], "b");
  EXPECT_EQ(entry_at(listing, "train/dog/2.jpg").extra[text_is_first ? 1 : 0], "");
  EXPECT_EQ(entry_at(listing, "test/cat/3.jpg").extra[text_is_first ? 1 : 0], "d");
}

TEST_F(ImageFolderSource, ObjectsBecomeBoxesWithTheirCategories) {
  write_images({"1.png", "2.png", "3.png"});
  write_text(
      dir / "metadata.jsonl",
      R"({"file_name": "1.png", "objects": {"bbox": [[302.0, 109.0, 73.0, 52.0], [1, 2, 3, 4]], )"
      R"("categories": [1, 0], "area": [3796, 12], "id": [114, 123456789012]}})"
      "\n"
      R"({"file_name": "2.png", "objects": {"bbox": [], "categories": [], "area": [], "id": []}})"
      "\n"
      R"({"file_name": "3.png", "objects": [{"bbox": [0, 0, 5, 6], "categories": 1, "area": 30, "id": 7}]})"
      "\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(field_names(listing),
            (std::vector<std::string>{"objects.bbox", "objects.categories", "objects.area", "objects.id"}));
  EXPECT_EQ(listing.fields[0].kind, FieldKind::kBoxes);
  EXPECT_EQ(listing.fields[1].kind, FieldKind::kLabels);
  EXPECT_EQ(listing.fields[1].of, "objects.bbox");
  EXPECT_EQ(listing.fields[2].of, "objects.bbox");
  EXPECT_EQ(listing.fields[3].kind, FieldKind::kBytes) << "123456789012 is no f32";
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"0", "1"}));
  const SourceEntry& first = entry_at(listing, "1.png");
  EXPECT_EQ(first.label, -1);
  EXPECT_EQ(floats(first.extra[0]), (std::vector<float>{302, 109, 375, 161, 1, 2, 4, 6}));
  EXPECT_EQ(decode_labels(first.extra[1]), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(floats(first.extra[2]), (std::vector<float>{3796, 12}));
  EXPECT_EQ(first.extra[3], "[114,123456789012]");
  EXPECT_EQ(entry_at(listing, "2.png").extra[0], "");
  EXPECT_EQ(floats(entry_at(listing, "3.png").extra[0]), (std::vector<float>{0, 0, 5, 6}));
  EXPECT_EQ(decode_labels(entry_at(listing, "3.png").extra[1]), std::vector<int64_t>{1});
  EXPECT_NE(warnings_of(listing).find("'objects.bbox' (boxes of x, y, width, height)"), std::string::npos)
      << warnings_of(listing);
}

TEST_F(ImageFolderSource, FieldSaysWhatObjectsAreInstead) {
  write_images({"1.png"});
  write_text(dir / "metadata.jsonl",
             R"({"file_name": "1.png", "objects": {"bbox": [[3, 4, 5, 6]], "category": ["a"], "area": [4]}})"
             "\n");
  const SourceListing listing =
      value_or_throw(list({.path = dir.path(), .fields = {"objects.bbox:boxes", "objects.area:text"}}));
  const SourceEntry& entry = entry_at(listing, "1.png");
  EXPECT_EQ(floats(entry.extra[0]), (std::vector<float>{3, 4, 5, 6}));
  EXPECT_EQ(listing.fields[1].of, "objects.bbox");
  EXPECT_EQ(listing.fields[2].kind, FieldKind::kBytes);
  EXPECT_EQ(entry.extra[2], "[4]");
  write_text(dir / "metadata.jsonl",
             "{\"file_name\": \"1.png\", \"objects\": {\"bbox\": [[3, 4, 5, 6]]}}\n"
             "{\"file_name\": \"2.png\", \"objects\": \"none\"}\n");
  EXPECT_NE(message().find("metadata.jsonl line 2: 'none' of 'objects' is not an object"), std::string::npos)
      << message();
}

TEST_F(ImageFolderSource, AnObjectWithoutABoxOrAClassIsNamed) {
  write_images({"1.png", "2.png"});
  const auto error = [&](const std::string& objects) {
    write_text(dir / "metadata.jsonl",
               R"({"file_name": "1.png", "objects": [{"bbox": [0, 0, 5, 5], "category": "dog"}]})"
               "\n"
               R"({"file_name": "2.png", "objects": )" +
                   objects + "}\n");
    return message();
  };
  const auto expect_part = [&](const std::string& objects, const std::string& part) {
    const std::string text = error(objects);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(error(R"([{"bbox": [0, 0, 5, 5], "category": "cat"}])"), "");
  expect_part(R"([{"bbox": [0, 0, 5, 5]}, {"bbox": [9, 9, 5, 5], "category": "cat"}, {"category": "dog"}])",
              "metadata.jsonl line 2: object 3 of 'objects' has no 'bbox'");
  expect_part(R"([{"bbox": [0, 0, 5, 5]}, {"bbox": [9, 9, 5, 5], "category": "cat"}])",
              "metadata.jsonl line 2: object 1 of 'objects' has no 'category'");
  expect_part(R"({"bbox": [[0, 0, 5, 5], [9, 9, 5, 5]], "category": ["cat", null]})",
              "metadata.jsonl line 2: object 2 of 'objects' has no 'category'");
}

TEST_F(ImageFolderSource, AnObjectMayLackWhatIsNoBoxAndNoClass) {
  write_images({"1.png"});
  write_text(dir / "metadata.jsonl",
             R"({"file_name": "1.png", "objects": [{"bbox": [0, 0, 5, 5], "category": null}, )"
             R"({"bbox": [9, 9, 5, 5], "category": null, "area": 4}]})"
             "\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(field_names(listing),
            (std::vector<std::string>{"objects.bbox", "objects.category", "objects.area"}));
  EXPECT_EQ(listing.fields[1].kind, FieldKind::kBytes) << "nothing names a class";
  EXPECT_EQ(listing.fields[2].kind, FieldKind::kBytes);
  EXPECT_EQ(listing.entries[0].extra[2], "[null,4]") << "the second box's";
}

TEST_F(ImageFolderSource, ObjectsThatNestTooDeepAreRefused) {
  write_images({"1.png"});
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  write_text(dir / "metadata.jsonl", R"({"file_name": "1.png", "objects": {"bbox": )" + deep + "}}\n");
  EXPECT_NE(message().find("metadata.jsonl line 1: values are nested"), std::string::npos) << message();
  std::filesystem::remove(dir / "metadata.jsonl");
  write_text(dir / "metadata.csv", "file_name,objects\n1.png,\"{\"\"bbox\"\": " + deep + "}\"\n");
  EXPECT_EQ(field_names(value_or_throw(list())), std::vector<std::string>{"objects"}) << "a text";
}

TEST_F(ImageFolderSource, AnImageWithoutARowAndARowWithoutAnImageAreNamed) {
  write_images({"train/1.jpg", "train/2.jpg", "val/1.jpg", "test/1.jpg"});
  write_text(dir / "train/metadata.csv", "file_name,label\n1.jpg,a\nnone.jpg,b\n");
  write_text(dir / "val/metadata.csv", "file_name,label\n1.jpg,b\n");
  const SourceListing listing = value_or_throw(list());
  const Found problems = problems_of(listing);
  EXPECT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems.at("train/2.jpg"), "no row of a metadata file names it");
  EXPECT_NE(problems.at("train/none.jpg").find("train/metadata.csv line 3: there is no file"),
            std::string::npos)
      << problems.at("train/none.jpg");
  EXPECT_EQ(entry_at(listing, "train/2.jpg").split, "train");
  EXPECT_NE(
      warnings_of(listing).find("ignored: the folder 'test' with 1 image, because no metadata file names it"),
      std::string::npos)
      << warnings_of(listing);
}

TEST_F(ImageFolderSource, OneOfSeveralColumnsOfFilesIsTheImage) {
  write_images({"images/1.jpg", "edges/1.png"});
  write_text(dir / "metadata.csv", "edge_file_name,image_file_name,text\nedges/1.png,images/1.jpg,a house\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(classes_of(listing), (Found{{" images/1.jpg", "-"}}));
  EXPECT_EQ(problems_of(listing), Found()) << "the edges are named by a row, too";
  EXPECT_EQ(entry_at(listing, "images/1.jpg").extra, (std::vector<std::string>{"edges/1.png", "a house"}));
  EXPECT_NE(warnings_of(listing).find("'edge_file_name' names more files"), std::string::npos)
      << warnings_of(listing);
}

TEST_F(ImageFolderSource, ALabelThatIsAListIsSeveralClasses) {
  write_images({"1.jpg", "2.jpg"});
  write_text(
      dir / "metadata.jsonl",
      "{\"file_name\": \"1.jpg\", \"label\": [\"a\", \"b\"]}\n{\"file_name\": \"2.jpg\", \"label\": []}\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"labels"});
  EXPECT_EQ(decode_labels(entry_at(listing, "1.jpg").extra[0]), (std::vector<int64_t>{0, 1}));
}

TEST_F(ImageFolderSource, MistakesAreNamedWithFileAndLine) {
  write_images({"a/1.jpg", "b/1.jpg"});
  const auto with = [&](const std::string& csv) {
    write_text(dir / "a/metadata.csv", "file_name,label\n1.jpg,x\n");
    write_text(dir / "b/metadata.csv", csv);
    return message();
  };
  const auto expect = [&](const std::string& csv, const std::string& part) {
    const std::string text = with(csv);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect("file_name,label\n1.jpg,x,y\n", "b/metadata.csv line 2: 3 columns, the first line has 2");
  expect("file_name,label\n../a/1.jpg,x\n",
         "b/metadata.csv line 2: a/1.jpg is already listed on " + dir.path() + "/a/metadata.csv line 2");
  expect("file_name,label\n../../1.jpg,x\n", "leads outside of");
  expect("file_name,label\n\"1.jpg,x\n", "b/metadata.csv line 2: a quote is never closed");
  write_text(dir / "b/metadata.jsonl", "{\"file_name\": \"1.jpg\"}\n");
  expect("file_name,label\n1.jpg,y\n", "b contains both metadata.csv and metadata.jsonl");
}

TEST_F(ImageFolderSource, AFolderWhoseMetadataNameNoFilesStaysAFolderOfClasses) {
  write_images({"a/1.jpg", "b/1.jpg"});
  write_text(dir / "metadata.csv", "name,license\na,CC0\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(classes_of(listing), (Found{{" a/1.jpg", "a"}, {" b/1.jpg", "b"}}));
  EXPECT_NE(warnings_of(listing).find("1 x .csv"), std::string::npos) << warnings_of(listing);
}

TEST_F(ImageFolderSource, ARepositoryWithItsSplitsInAFolderDataIsReadFromThere) {
  write_images({"data/train/1.jpg", "data/test/1.jpg"});
  write_text(dir / "README.md", "# a dataset");
  for (const char* split : {"train", "test"})
    write_text(dir / ("data/" + std::string(split) + "/metadata.csv"), "file_name,label\n1.jpg,x\n");
  const SourceListing listing = value_or_throw(list());
  EXPECT_EQ(classes_of(listing), (Found{{"train 1.jpg", "x"}, {"test 1.jpg", "x"}}));
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[0])).size(), listing.entries[0].path.size() + 5);
  EXPECT_NE(warnings_of(listing).find(dir / "data is read as Hugging Face's imagefolder"), std::string::npos)
      << warnings_of(listing);
}

TEST_F(ImageFolderSource, ParquetIsAnsweredWithWhatToDo) {
  write_images({"train/1.jpg"});
  write_text(dir / "train/metadata.parquet", "PAR1");
  EXPECT_NE(message().find("train/metadata.parquet is not supported"), std::string::npos) << message();
}

}  // namespace
}  // namespace dlpipe::data

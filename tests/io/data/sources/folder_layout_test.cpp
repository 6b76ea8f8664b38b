#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "dlpipe/source.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/sources/folder_listing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

TEST(FolderSource, OneClassIsAWarningThatGuessesWhatWasMeant) {
  TempDir dir;
  write_text(dir / "only/1.jpg", "x");
  EXPECT_NE(value_or_throw(list_folder(dir.path())).warnings.at(0).find("only one class, 'only'"),
            std::string::npos);
  std::filesystem::remove(dir / "only/1.jpg");
  write_text(dir / "only/cat/1.jpg", "x");
  EXPECT_NE(
      value_or_throw(list_folder(dir.path())).warnings.at(0).find("did you mean " + dir.path() + "/only?"),
      std::string::npos);
}

// Their boxes were lost, and the folders became classes.
TEST(FolderSource, ImagesWithAnAnnotationEachAreNoClasses) {
  struct Case {
    const char* image;  // in each of the folders a and b, and below a folder of its own
    const char* annotation;
    const char* text;
    const char* what_to_do;
  };
  const std::vector<Case> cases = {
      {"%/1.jpg", "%/1.txt", "0 .5 .5 .2 .2\n3 0.1 0.2  0.1 0.1\n", "list the classes in classes.txt"},
      {"%/1.jpg", "%/1.json", "{}", "one JSON for all images"},
      {"%/1.jpg", "%/xml/1.xml", "x", "put the .xml into Annotations/"},
      {"%/1.jpg", "notes/%/1.xml", "x", "put the .xml into Annotations/"},
      {"photos/%/1.jpg", "notes/%/1.xml", "x", "put the .xml into Annotations/"},
      {"%/JPEGImages/1.jpg", "%/Annotations/1.xml", "<annotation/>", "put the .xml into Annotations/"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.annotation);
    TempDir dir;
    const auto in = [](std::string path, const std::string& folder) {
      return path.replace(path.find('%'), 1, folder);
    };
    for (const char* folder : {"a", "b"}) {
      write_text(dir / in(one.image, folder), "x");
      write_text(dir / in(one.annotation, folder), one.text);
    }
    const std::string refusal = refusal_of(dir.path());
    EXPECT_NE(refusal.find("such as " + (dir / in(one.annotation, "a"))), std::string::npos) << refusal;
    EXPECT_NE(refusal.find(one.what_to_do), std::string::npos) << refusal;
    auto literal = value_or_throw(open_source({.path = dir.path(), .splits = false}));
    EXPECT_TRUE(literal->list().ok());
    // Most images have none: an annotation of some, as in ImageNet.
    for (const char* folder : {"a", "b"}) write_text(dir / in(one.image, folder) + ".jpg", "x");
    EXPECT_TRUE(list_folder(dir.path()).ok());
  }
}

TEST(FolderSource, ImagesWithAnAnnotationEachInSplitsAndNextToThemAreNoClassesEither) {
  TempDir dir;
  for (const char* folder : {"train/a", "train/b", "val/a", "val/b"}) {
    write_text(dir / ("splits/" + std::string(folder) + "/1.jpg"), "x");
    write_text(dir / ("splits/" + std::string(folder) + "/1.json"), "{}");
    write_text(dir / ("voc/JPEGImages/" + std::string(folder) + "/1.jpg"), "x");
    write_text(dir / ("voc/Annotations/" + std::string(folder) + "/1.xml"), "<annotation/>");
  }
  const Status status = list_folder(dir / "splits").status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_NE(status.message().find("if the folders are the classes, list the images"), std::string::npos)
      << status.message();
  const std::string command = list_folder(dir / "voc/JPEGImages").status().message();
  EXPECT_NE(command.find("dlpipe ingest " + (dir / "voc") + " DST"), std::string::npos) << command;
}

TEST(FolderSource, DeeperFoldersThatMayBeTheClassesAreAWarning) {
  TempDir dir;
  write_each(dir, {"plants/rose/1.jpg", "animals/cat/1.jpg"});
  SourceListing listing = value_or_throw(list_folder(dir.path()));
  ASSERT_EQ(listing.warnings.size(), 1u);
  EXPECT_NE(listing.warnings[0].find("'animals/cat/1.jpg' has the class 'animals'"), std::string::npos)
      << listing.warnings[0];
  EXPECT_NE(listing.warnings[0].find("dlpipe ingest '" + dir.path() + "/*' DST"), std::string::npos);
  // A wildcard would take what lies beside them, too.
  write_text(dir / "README.txt", "x");
  listing = value_or_throw(list_folder(dir.path()));
  EXPECT_NE(
      listing.warnings[0].find("dlpipe ingest " + dir.path() + "/animals " + dir.path() + "/plants DST"),
      std::string::npos)
      << listing.warnings[0];
  // Folders of different depths aren't classes for any command.
  write_text(dir / "plants/tree/oak/1.jpg", "x");
  listing = value_or_throw(list_folder(dir.path()));
  EXPECT_NE(listing.warnings[0].find("if others are the classes, list them with --manifest"),
            std::string::npos)
      << listing.warnings[0];
  EXPECT_EQ(listing.warnings[0].find("dlpipe ingest"), std::string::npos);
  // One of several inputs has one class, which holds others.
  auto input = value_or_throw(open_source({.path = dir / "plants", .alone = false}));
  std::filesystem::remove_all(dir / "plants/rose");
  write_text(dir / "plants/tree/elm/1.jpg", "x");
  EXPECT_NE(value_or_throw(input->list()).warnings.at(0).find("'tree/elm/1.jpg' has the class 'tree'"),
            std::string::npos);
  write_text(dir / "plants/2.jpg", "x");
  write_text(dir / "plants/rose/2.jpg", "x");
  write_text(dir / "animals/3.jpg", "x");
  for (const std::string& warning : value_or_throw(list_folder(dir.path())).warnings)
    EXPECT_EQ(warning.find("deeper"), std::string::npos) << warning;
}

TEST(FolderSource, AFolderOfImagesInEachClassIsNoSurprise) {
  TempDir dir;
  write_each(dir,
             {"cat/images/1.jpg", "cat/images/2.jpg", "dog/dog/1.jpg", "dog/dog/2.jpg", "emu/images/1.jpg"});
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog", "emu"}));
  EXPECT_TRUE(listing.warnings.empty());
}

TEST(FolderSource, TheFoldersOfTheOnlyFolderWithImagesAreTaken) {
  TempDir dir;
  write_each(dir, {"set/Data/images/cat/1.jpg", "set/Data/images/dog/2.jpg", "set/Data/images/dog/3.jpg",
                   "set/Data/notes.txt", "set/Annotations/cat/1.mat", "README"});
  write_text(dir / "images.txt", "1 cat/1.jpg\n2 dog/2.jpg\n");  // no list that could be ingested
  auto source = value_or_throw(open_source({dir.path(), ""}));
  for (int again = 0; again < 2; ++again) {
    const SourceListing listing = value_or_throw(source->list());
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
    ASSERT_EQ(listing.entries.size(), 3u);
    for (const SourceEntry& entry : listing.entries)
      EXPECT_EQ(value_or_throw(source->read(entry)).size(), 1u);
    ASSERT_EQ(listing.warnings.size(), 1u);
    EXPECT_EQ(listing.warnings[0],
              "[ingest] all images of " + dir.path() + " are in " + dir.path() +
                  "/set/Data/images, so its folders are used; --no-splits makes each folder a class");
  }
  auto literal = value_or_throw(open_source({.path = dir.path(), .splits = false}));
  EXPECT_EQ(value_or_throw(literal->list()).classes, (std::vector<std::string>{"set"}));
  // Of several inputs each may have one class; only a folder that is called as images are, or as the input, is none.
  auto input = value_or_throw(open_source({.path = dir / "set", .alone = false}));
  EXPECT_EQ(value_or_throw(input->list()).classes, (std::vector<std::string>{"Data"}));
  input = value_or_throw(open_source({.path = dir / "set/Data", .alone = false}));
  EXPECT_EQ(value_or_throw(input->list()).classes, (std::vector<std::string>{"cat", "dog"}));
  // What would be read as something else is named.
  write_text(dir / "set/Data/data.yaml", "names: [a]\n");
  EXPECT_NE(
      refusal_of(dir.path()).find("would be read as: yolo; dlpipe ingest " + dir.path() + "/set/Data DST"),
      std::string::npos);
}

TEST(FolderSource, AListBesideTheOnlyFolderWithImagesIsNamed) {
  TempDir dir;
  write_each(dir, {"images/part_1/1.jpg", "images/part_2/2.jpg"});
  write_text(dir / "labels.csv", "id,label\n1,cat\n2,dog\n");
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_NE(listing.warnings.at(0).find("so its folders are used; if 'labels.csv' next to it lists the "
                                        "classes of its images: dlpipe ingest " +
                                        dir.path() + "/labels.csv DST; --no-splits"),
            std::string::npos)
      << listing.warnings[0];
}

TEST(FolderSource, SplitsInADeeperFolderAreSplits) {
  TempDir dir;
  write_each(dir, {"set/train/cat/1.jpg", "set/train/dog/1.jpg", "set/val/cat/2.jpg", "set/val/dog/2.jpg"});
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(listing.entries.front().split, "train");
  EXPECT_EQ(listing.entries.back().split, "val");
  // Beside it some that have no classes: what is wrong is said, instead of one class that holds all of them.
  std::filesystem::remove_all(dir / "set/val");
  write_text(dir / "set/val/1.jpg", "x");
  EXPECT_NE(refusal_of(dir.path()).find("'val' has images, but no class folders like 'train'"),
            std::string::npos);
}

TEST(FolderSource, SplitsMayBeWordsOfNamesAndHoldAFolderOfTheirOwnName) {
  TempDir dir;
  write_each(dir, {"seg_train/seg_train/sea/1.jpg", "seg_train/seg_train/wood/1.jpg",
                   "seg_test/seg_test/sea/2.jpg", "seg_test/seg_test/wood/2.jpg", "seg_pred/seg_pred/3.jpg"});
  SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"sea", "wood"}));
  ASSERT_EQ(listing.entries.size(), 4u);
  for (const SourceEntry& entry : listing.entries)
    EXPECT_EQ(entry.split, entry.path.substr(4, 5) == "train" ? "train" : "test") << entry.path;
  EXPECT_EQ(listing.entries.front().name(), "sea/1.jpg");
  EXPECT_NE(warnings_of(listing).find("ignored folders next to the splits: 'seg_pred'"), std::string::npos);
}

TEST(FolderSource, ValidationImagesWithAListGetTheCommandsThatReadThem) {
  TempDir dir;
  write_each(dir, {"t/train/n1/images/1.jpg", "t/train/n2/images/1.jpg", "t/val/images/1.jpg",
                   "t/test/images/1.jpg"});
  write_text(dir / "t/val/val_annotations.txt", "1.jpg\tn1\n");
  const std::string t = dir / "t";
  EXPECT_NE(
      refusal_of(t).find("if 'val/val_annotations.txt' lists their classes: dlpipe ingest " + t +
                         "/train DST/train, then dlpipe ingest " + t + "/val/images DST/val --manifest " + t +
                         "/val/val_annotations.txt --classes-from DST/train"),
      std::string::npos);
}

TEST(FolderSource, FoldersThatAreCalledLikeSplitsAreNoClasses) {
  TempDir dir;
  write_each(dir,
             {"kaggle/train_images/1.jpg", "kaggle/train_images/2.jpg", "kaggle/test_images/3.jpg",
              "masks/train/1.jpg", "masks/train_masks/1.jpg", "matlab/cars_train/1.jpg",
              "matlab/cars_test/1.jpg", "matlab/annos.mat", "fine/train_station/1.jpg", "fine/bus/1.jpg"});
  EXPECT_NE(refusal_of(dir / "kaggle").find("named like splits, 'test_images', 'train_images', "),
            std::string::npos);
  EXPECT_NE(refusal_of(dir / "kaggle").find("give the list with --manifest"), std::string::npos);
  write_text(dir / "kaggle/sample_submission.csv", "id,label\n3,0\n");
  write_text(dir / "kaggle/train.csv", "id,label\n1,0\n2,1\n");
  EXPECT_NE(refusal_of(dir / "kaggle")
                .find("if 'train.csv' next to it lists the classes of its images: dlpipe ingest " +
                      (dir / "kaggle") + "/train.csv DST"),
            std::string::npos);
  // The same if the folders are splits without classes: a list next to them, or in each of them.
  write_each(dir, {"flat/train/1.jpg", "flat/train/2.jpg", "flat/test/3.jpg", "robo/train/1.jpg",
                   "robo/train/2.jpg", "robo/valid/3.jpg", "robo/valid/4.jpg"});
  EXPECT_NE(refusal_of(dir / "flat").find("list the files with their labels in a manifest"),
            std::string::npos);
  write_text(dir / "flat/labels.csv", "path,label\ntrain/1.jpg,cat\ntrain/2.jpg,dog\ntest/3.jpg,dog\n");
  EXPECT_NE(refusal_of(dir / "flat").find("dlpipe ingest " + (dir / "flat") + "/labels.csv DST"),
            std::string::npos)
      << refusal_of(dir / "flat");
  write_text(dir / "robo/train/_classes.csv", "filename, cat, dog\n1.jpg, 1, 0\n2.jpg, 1, 1\n");
  write_text(dir / "robo/valid/_classes.csv", "filename, cat, dog\n3.jpg, 1, 0\n4.jpg, 0, 1\n");
  EXPECT_NE(refusal_of(dir / "robo")
                .find("dlpipe ingest " + (dir / "robo") + "/train/_classes.csv " + (dir / "robo") +
                      "/valid/_classes.csv DST"),
            std::string::npos)
      << refusal_of(dir / "robo");
  EXPECT_NE(refusal_of(dir / "masks").find("'train', 'train_masks'"), std::string::npos);
  EXPECT_NE(refusal_of(dir / "matlab")
                .find("'annos.mat' next to it may list the classes of its images, but MATLAB"),
            std::string::npos);
  EXPECT_TRUE(value_or_throw(list_folder(dir / "fine")).warnings.empty());
  auto literal = value_or_throw(open_source({.path = dir / "kaggle", .splits = false}));
  EXPECT_EQ(value_or_throw(literal->list()).classes.size(), 2u);
}

// A list of half a million lines is looked at here and there: the whole took a minute, before a word was said.
TEST(FolderSource, ASplitBesideOneOfAnotherNameIsRefused) {
  TempDir dir;
  write_each(dir, {"train/cat/1.jpg", "train/dog/1.jpg", "dev/cat/1.jpg", "dev/dog/1.jpg"});
  EXPECT_NE(refusal_of(dir.path()).find("'dev', which has the same class folders"), std::string::npos);
  const SourceListing literal =
      value_or_throw(value_or_throw(open_source({.path = dir.path(), .splits = false}))->list());
  EXPECT_EQ(literal.classes, (std::vector<std::string>{"dev", "train"}));
}

TEST(FolderSource, OfALongListBesideItsFolderSomeLinesAreReadFromAllOfIt) {
  TempDir dir;
  std::string list = "path,label\n";
  for (int i = 0; i < 3000; ++i) {
    const std::string name = concat("images/", std::string(100, 'n'), i, ".jpg");
    write_text(dir / ("src/" + name), "x");
    list += concat(name, ",", i < 1500 ? "cat" : "dog", "\n");
  }
  ASSERT_GT(list.size(), size_t{256} << 10);
  write_text(dir / "src/labels.csv", list);
  EXPECT_NE(refusal_of(dir / "src").find("'labels.csv' next to it lists the classes of its images"),
            std::string::npos);
  SourceOptions options{.path = dir / "src/labels.csv"};
  EXPECT_EQ(value_or_throw(value_or_throw(open_source(options))->list()).entries.size(), 3000u);
  options.every = 7;
  const SourceListing some = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(some.entries.size(), 429u);
  EXPECT_EQ(some.classes, (std::vector<std::string>{"cat", "dog"}));
}

TEST(FolderSource, OneFolderThatSaysNoClassIsRefused) {
  TempDir dir;
  write_each(dir, {"jpg/jpg/1.jpg", "jpg/labels.mat", "faces/aligned/1.jpg", "faces/aligned/2.jpg"});
  EXPECT_NE(refusal_of(dir / "jpg").find("all images are in one folder, 'jpg'; 'labels.mat' next to it"),
            std::string::npos);
  std::filesystem::remove(dir / "jpg/labels.mat");
  EXPECT_NE(refusal_of(dir / "jpg").find("whose name is not a class; make one folder for each class"),
            std::string::npos);
  EXPECT_NE(warnings_of(value_or_throw(list_folder(dir / "faces"))).find("only one class, 'aligned'"),
            std::string::npos);
  write_text(dir / "faces/attributes.csv", "image_id,Male,Young\n1.jpg,-1,1\n2.jpg,1,1\n");
  EXPECT_NE(refusal_of(dir / "faces")
                .find("if 'attributes.csv' next to it lists the classes of its images: dlpipe ingest " +
                      (dir / "faces") + "/attributes.csv DST"),
            std::string::npos);
  // One that needs no question goes before.
  write_text(dir / "faces/identity.txt", "1.jpg 4\n2.jpg 7\n");
  EXPECT_NE(refusal_of(dir / "faces")
                .find("if 'identity.txt', 'attributes.csv' next to it list the classes of its images: dlpipe "
                      "ingest " +
                      (dir / "faces") + "/identity.txt DST"),
            std::string::npos);
}

TEST(FolderSource, ALoneFolderThatIsCalledAsASplitIsNoClass) {
  TempDir dir;
  for (const char* name : {"train", "val", "test", "train_images", "data", "train/train", "data/images"}) {
    std::filesystem::remove_all(dir / "src");
    write_text(dir / (std::string("src/") + name + "/0001.jpg"), "x");
    EXPECT_NE(refusal_of(dir / "src").find("whose name is not a class; make one folder for each class"),
              std::string::npos)
        << name;
  }
  for (const char* image : {"cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"})
    write_text(dir / (std::string("dvc/train/") + image), "x");
  const std::string said = refusal_of(dir / "dvc");
  EXPECT_NE(
      said.find("whose name is not a class; if the names of its files contain them ('cat', 'dog'): `(cd " +
                (dir / "dvc/train") + " && "),
      std::string::npos)
      << said;
  EXPECT_NE(said.find("dlpipe ingest " + (dir / "dvc/train") + " DST --manifest list.csv"), std::string::npos)
      << said;
  SourceOptions literally{.path = dir / "dvc"};
  literally.splits = false;
  EXPECT_EQ(value_or_throw(value_or_throw(open_source(literally))->list()).classes,
            std::vector<std::string>{"train"});
  // Its folders are classes, and one of them is.
  write_each(dir, {"two/train/cat/1.jpg", "two/train/dog/1.jpg", "one/train/cat/1.jpg"});
  EXPECT_EQ(value_or_throw(list_folder(dir / "two")).classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_NE(
      warnings_of(value_or_throw(list_folder(dir / "one"))).find("did you mean " + (dir / "one/train?")),
      std::string::npos);
}

TEST(FolderSource, TheListOfImagesInSeveralFoldersIsNamed) {
  TempDir dir;
  write_each(dir, {"ham/part_1/1.jpg", "ham/part_2/2.jpg", "large/data_large/a/airfield/1.jpg",
                   "large/data_large/z/zoo/2.jpg", "large/val_large/3.jpg"});
  EXPECT_TRUE(value_or_throw(list_folder(dir / "ham")).warnings.empty()) << "they may be classes";
  write_text(dir / "ham/metadata.csv", "image_id,dx\n1,nv\n2,mel\n");
  EXPECT_NE(value_or_throw(list_folder(dir / "ham"))
                .warnings.at(0)
                .find("the names of the classes differ only in their numbers: 'part_1', 'part_2'; if "
                      "'metadata.csv' next to it lists the classes of its images: dlpipe ingest " +
                      (dir / "ham") + "/metadata.csv DST"),
            std::string::npos);
  const std::string large = dir / "large";
  EXPECT_NE(value_or_throw(list_folder(large)).warnings.at(0).find("'val_large' is named like a split"),
            std::string::npos);
  write_text(dir / "large/all.txt", "/a/airfield/1.jpg 0\n/z/zoo/2.jpg 1\n");
  EXPECT_NE(value_or_throw(list_folder(large))
                .warnings.at(0)
                .find("dlpipe ingest " + large + "/all.txt DST --images " + large + "/data_large"),
            std::string::npos);
}

TEST(FolderSource, AFolderOfAnotherKindBelowIsNamed) {
  TempDir dir;
  write_each(dir, {"Fashion/raw/train-images-idx3-ubyte", "Fashion/raw/train-labels-idx1-ubyte"});
  const auto listing = list_folder(dir.path());
  EXPECT_NE(listing.status().message().find("did you mean dlpipe ingest " + dir.path() + "/Fashion/raw DST?"),
            std::string::npos)
      << listing.status().message();
}

TEST(FolderSource, PublishedSplitsBecomeSplitsWithOneClassOrder) {
  TempDir dir;
  for (const char* file : {"train/b/1.jpg", "train/a/deep/2.jpg", "train/c/3.jpg", "val/b/4.jpg",
                           "val/a/5.jpg", "test/6.jpg", "train/beside.jpg", "notes/readme.md"})
    write_text(dir / file, "x");
  const SourceListing listing = value_or_throw(list_folder(dir.path()));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b", "c"}));
  std::vector<std::string> found;
  for (const SourceEntry& entry : listing.entries)
    found.push_back(entry.split + " " + std::string(entry.name()) + "=" + std::to_string(entry.label));
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<std::string>{"train a/deep/2.jpg=0", "train b/1.jpg=1", "train c/3.jpg=2",
                                             "val a/5.jpg=0", "val b/4.jpg=1"}));
  const std::string all = warnings_of(listing);
  EXPECT_NE(all.find("are splits: 'train', 'val'"), std::string::npos) << all;
  EXPECT_NE(all.find("'test' has none of the class folders"), std::string::npos) << all;
  EXPECT_NE(all.find("'notes'"), std::string::npos) << all;
  EXPECT_NE(all.find("1 image next to the class folders"), std::string::npos) << all;

  auto source = value_or_throw(open_source({.path = dir.path(), .splits = false}));
  const SourceListing literal = value_or_throw(source->list());
  EXPECT_EQ(literal.classes, (std::vector<std::string>{"test", "train", "val"}));
  EXPECT_EQ(literal.entries.front().split, "");
}

TEST(FolderSource, TheListOfAnExportIsNamed) {
  TempDir dir;
  write_text(dir / "my out/1.jpg", "x");
  write_text(dir / "my out/fields.jsonl", "{\"fields\": []}\n");
  const std::string command = "dlpipe ingest '" + (dir / "my out/fields.jsonl") + "' DST";
  EXPECT_NE(list_folder(dir / "my out").status().message().find(command), std::string::npos);
  write_text(dir / "my out/cat/1.jpg", "x");
  write_text(dir / "my out/dog/2.jpg", "x");
  const std::vector<std::string> warnings = value_or_throw(list_folder(dir / "my out")).warnings;
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [&](const std::string& warning) {
    return warning.find(command) != std::string::npos;
  }));
}

}  // namespace
}  // namespace dlpipe::data

#include <gtest/gtest.h>

#include <cstring>

#include "base/text.h"
#include "dlpipe/source.h"
#include "io/data/sources/typed_columns.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/sources/manifest_fixture.h"

namespace dlpipe::data {
namespace {

TEST_F(ManifestTest, ColumnsThatMaySayTheSplitAreNamed) {
  const auto said = [&](const std::string& text) { return warnings_of(value_or_throw(list(text))); };
  const std::string valid = said("path,label,is_valid\n3.png,cat,False\np/1.jpg,dog,True\n");
  EXPECT_NE(
      valid.find("the column 'is_valid' ('False', 'True') may hold the splits of the images, but becomes a "
                 "field; to make splits, add a column split with train, val or test in each line"),
      std::string::npos)
      << valid;
  EXPECT_NE(said("path,label,Partition\n3.png,cat,0\np/1.jpg,dog,1\n").find("'Partition' ('0', '1')"),
            std::string::npos);
  EXPECT_EQ(said("path,label,fold\n3.png,cat,1\np/1.jpg,dog,1\n"), "") << "one value says nothing";
  EXPECT_EQ(said("path,label,split,fold\n3.png,cat,train,1\np/1.jpg,dog,val,2\n"), "");
  write_text(dir / "list_eval_partition.csv", "image_id,partition\n3.png,0\n");
  const std::string beside = said("path,label\n3.png,cat\np/1.jpg,dog\n");
  EXPECT_NE(beside.find("'list_eval_partition.csv'"), std::string::npos) << beside;
}

TEST_F(ManifestTest, AFirstLineMayNameTheColumnsInAnyOrder) {
  const SourceListing listing =
      value_or_throw(list("ID,Class,camera,,Filename\n7,dog,left,x,3.png\n8,cat,right,y,p/1.jpg\n"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(listing.entries[0].path, "3.png");
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"ID", "camera"}));
  EXPECT_EQ(listing.entries[1].extra, (std::vector<std::string>{"8", "right"}));
  ASSERT_EQ(listing.warnings.size(), 1u);
  EXPECT_NE(listing.warnings[0].find("column 4 of"), std::string::npos) << listing.warnings[0];
  EXPECT_EQ(value_or_throw(list("3.png,image\np/1.jpg,file\n")).entries.size(), 2u)
      << "classes of these names";
  EXPECT_NE(message("number,breed\n3,a\n").find("'number' is not a file; if this line has the column names"),
            std::string::npos);
  EXPECT_NE(message("path,split\n3.png,train\n").find("no column of labels"), std::string::npos);
}

// As hospitals call it: Image Index.
TEST_F(ManifestTest, TheOnlyColumnOfImagesNamesThem) {
  const SourceListing listing = value_or_throw(list("Image Index,label\n3.png,a\np/1.jpg,b\n"));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[1].path, "p/1.jpg");
  EXPECT_NE(listing.warnings.at(0).find("the column 'Image Index' of "), std::string::npos)
      << listing.warnings[0];
  EXPECT_NE(message("number,before,behind\n1,3.png,p/1.jpg\n").find("'number' is not a file"),
            std::string::npos)
      << "two columns of images";
}

TEST_F(ManifestTest, AColumnOfSplitsMakesSplits) {
  const std::string text = "path,split,label\n3.png,Train,a\np/1.jpg,valid,b\np/2.jpg,TEST,a\n";
  const SourceListing listing = value_or_throw(list(text));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(listing.entries[0].split, "train");
  EXPECT_EQ(listing.entries[1].split, "val");
  EXPECT_EQ(listing.entries[2].split, "test");
  EXPECT_TRUE(listing.fields.empty());
  EXPECT_NE(message("path,label,split\n3.png,a,holdout\n").find("line 2: the split 'holdout' is not"),
            std::string::npos);
  auto literal = value_or_throw(open_source({.path = dir / "list.csv", .splits = false}));
  write_text(dir / "list.csv", text);
  const SourceListing plain = value_or_throw(literal->list());
  EXPECT_EQ(field_names(plain), std::vector<std::string>{"split"});
  EXPECT_EQ(plain.entries[0].split, "");
  const SourceListing unnamed = value_or_throw(list("3.png,a,train\np/1.jpg,b,val\n"));
  ASSERT_EQ(unnamed.warnings.size(), 1u);
  EXPECT_NE(unnamed.warnings[0].find("'column3' contains names of splits"), std::string::npos)
      << unnamed.warnings[0];
}

TEST_F(ManifestTest, AZeroOrOneForEachLabelIsNoListOfLabels) {
  const auto message_of = [&](const std::string& text) {
    write_text(dir / "list.jsonl", text);
    const auto source = open_source({.path = dir / "list.jsonl", .fields = {"tags:labels"}});
    return source.ok() ? (*source)->list().status().message() : source.status().message();
  };
  EXPECT_NE(
      message_of("{\"path\": \"3.png\", \"tags\": [0, 1, 1]}\n{\"path\": \"p/1.jpg\", \"tags\": [0, 0, 0]}\n")
          .find("has a 0 or 1 for each of 3 labels"),
      std::string::npos);
  EXPECT_EQ(
      message_of("{\"path\": \"3.png\", \"tags\": [0, 1]}\n{\"path\": \"p/1.jpg\", \"tags\": [0, 0, 0]}\n"),
      "");
  EXPECT_EQ(message_of(
                "{\"path\": \"3.png\", \"tags\": [0, 1, 2]}\n{\"path\": \"p/1.jpg\", \"tags\": [0, 0, 0]}\n"),
            "");
}

// pandas writes a column of whole numbers so as soon as one is missing.
TEST_F(ManifestTest, WholeNumbersMayBeWrittenAsFractions) {
  const auto check = [&](const std::string& text, const std::string& name) {
    SCOPED_TRACE(text);
    const SourceListing listing = value_or_throw(list(text, name));
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"0", "1", "10"}));
    ASSERT_EQ(listing.entries.size(), 3u);
    EXPECT_EQ(listing.entries[0].label, 1);
    EXPECT_EQ(listing.entries[1].label, 2);
    EXPECT_EQ(listing.entries[2].label, 0);
  };
  check("path,label\n3.png,1.0\np/1.jpg,10.0\np/2.jpg,0.0\n", "list.csv");
  check("path,label\n3.png,1\np/1.jpg,1e1\np/2.jpg,0.0\n", "list.csv");
  check("path,label\n3.png,1.000000000000000000e+00\np/1.jpg,10\np/2.jpg,-0.0\n", "list.csv");
  check("path;label\n3.png;1,0\np/1.jpg;10,0\np/2.jpg;0,0\n", "list.csv");
  check("path\tlabel\n3.png\t1.0\np/1.jpg\t10.0\np/2.jpg\t0.0\n", "list.tsv");
  check(
      "{\"path\": \"3.png\", \"label\": 1.0}\n{\"path\": \"p/1.jpg\", \"label\": 10.0}\n"
      "{\"path\": \"p/2.jpg\", \"label\": 0.0}\n",
      "list.jsonl");
  EXPECT_EQ(value_or_throw(list("path,label\n3.png,1.0\np/1.jpg,2.5b\n")).classes,
            (std::vector<std::string>{"1.0", "2.5b"}))
      << "names, as one of them is none";
  EXPECT_NE(message("path,label\n3.png,1.0\np/1.jpg,0.5\n").find("line 3: the label '0.5' is a number"),
            std::string::npos);
  EXPECT_NE(message("path,label\n3.png,1\np/1.jpg,1e300\n").find("'1e300' is a number, but not a whole"),
            std::string::npos);
  EXPECT_EQ(value_or_throw(list("path,dog,cat\n3.png,1.0,0.0\np/1.jpg,0.0,1.0\n")).classes,
            (std::vector<std::string>{"dog", "cat"}));
  write_text(dir / "list.csv", "path,tags\n3.png,\"[1.0, 10]\"\np/1.jpg,0.0|1\n");
  const SourceListing several = value_or_throw(
      value_or_throw(open_source({.path = dir / "list.csv", .fields = {"tags:labels"}}))->list());
  EXPECT_EQ(several.classes, (std::vector<std::string>{"0", "1", "10"}));
}

TEST_F(ManifestTest, APathWithAZeroByteOpensNothing) {
  const SourceListing listing =
      value_or_throw(list("{\"path\": \"3.png\\u0000 x\", \"label\": \"a\"}\n"
                          "{\"path\": \"p/1.jpg\", \"label\": \"b\"}\n",
                          "list.jsonl"));
  EXPECT_NE(listing.entries[0].problem.find("contains a zero byte"), std::string::npos)
      << listing.entries[0].problem;
  EXPECT_EQ(listing.entries[0].size_bytes, 0u);
}

TEST_F(ManifestTest, WhatIsNoClassIsRefusedByName) {
  EXPECT_NE(message("3.png,a\np/1.jpg,cat|dog\n").find("line 2: the label 'cat|dog' names several classes"),
            std::string::npos);
  EXPECT_NE(message("path,label\n3.png,1\np/1.jpg,0.25\n").find("line 3: the label '0.25' is a number"),
            std::string::npos);
  EXPECT_NE(message("3.png,inf\np/1.jpg,2\n").find("'inf' is a number, but not a whole number"),
            std::string::npos);
  // What would make a field of the column is given as it has to be typed; without names it can't be.
  for (const auto& [text, field] :
       {std::pair("filename,age\n3.png,8.403\np/1.jpg,8.684\n", "--field age:number"),
        {"path,my label,label\n3.png,1,0.5\np/1.jpg,2,0.25\n", "--field label:number"},
        {"path,the tags\n3.png,[1]\np/1.jpg,[2]\n", "(--field 'the tags:boxes-xywh', or labels or numbers"},
        {"path,label\n3.png,a\np/1.jpg,cat|dog\n", "--field label:labels"},
        {"3.png,inf\np/1.jpg,2\n", "--field COLUMN:number"}}) {
    EXPECT_NE(message(text).find(field), std::string::npos) << message(text);
  }
  EXPECT_TRUE(list("3.png,1.5T\np/1.jpg,2.0T\n").ok()) << "names may hold numbers";
  EXPECT_TRUE(list("path,label,blurred\n3.png,1,0\np/1.jpg,0,1\n").ok()) << "the label is named";
}

TEST_F(ManifestTest, ColumnsOfZerosAndOnesAreClasses) {
  const SourceListing one =
      value_or_throw(list("image_id,healthy,rust,apple,split\n3,1,0,0,train\np/1,0,0,1,val\np/2,0,1,,val\n"));
  EXPECT_EQ(one.classes, (std::vector<std::string>{"healthy", "rust", "apple"})) << "in their order";
  EXPECT_TRUE(one.has_class_order && one.fields.empty());
  EXPECT_EQ(one.entries[0].label, 0);
  EXPECT_EQ(one.entries[1].label, 2);
  EXPECT_EQ(one.entries[1].split, "val");
  EXPECT_NE(one.entries[2].problem.find("line 4: a cell of its classes is empty"), std::string::npos);
  EXPECT_NE(one.warnings.at(0).find("'healthy', 'rust', 'apple'"), std::string::npos) << one.warnings[0];

  const SourceListing several =
      value_or_throw(list("filename, owl, cat, dog\n3.png, 1, 0, 1\np/1.jpg, 0, 0, 0\np/2.jpg, 0, 1, 0\n"));
  EXPECT_EQ(several.classes, (std::vector<std::string>{"owl", "cat", "dog"}));
  ASSERT_EQ(field_names(several), std::vector<std::string>{"labels"});
  EXPECT_EQ(several.fields[0].kind, FieldKind::kLabels);
  const std::vector<std::vector<int64_t>> expected = {{0, 2}, {}, {1}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(decode_labels(several.entries[i].extra.at(0)), expected[i]) << i;
    EXPECT_EQ(several.entries[i].label, -1);
    EXPECT_EQ(several.entries[i].problem, "");
  }

  EXPECT_EQ(value_or_throw(list("{\"path\": \"3.png\", \"cat\": 1, \"dog\": 0}\n"
                                "{\"path\": \"p/1.jpg\", \"cat\": 0, \"dog\": 1}\n",
                                "list.jsonl"))
                .entries[1]
                .label,
            1);
  // Another number or text, missing names, a name that comes twice and one of splits leave the question open.
  for (const char* text :
       {"path,cat,dog\n3.png,1,0\np/1.jpg,0,2\n", "path,cat,age\n3.png,1,x\np/1.jpg,0,y\n",
        "3.png,1,0\np/1.jpg,0,1\n", "path,cat,cat\n3.png,1,0\np/1.jpg,0,1\n",
        "path,cat,dog\n3.png,,\np/1.jpg,,\n", "path,cat,is_valid\n3.png,1,0\np/1.jpg,0,1\n"})
    EXPECT_NE(message(text), "") << text;
}

TEST_F(ManifestTest, ChoicesOfLabelStudioAreLabels) {
  write_text(dir / "list.csv",
             "path,tags\n3.png,\"{\"\"choices\"\": [\"\"cat\"\", \"\"dog\"\"]}\"\np/1.jpg,dog\n");
  const SourceOptions options{.path = dir / "list.csv", .fields = {"tags:labels"}};
  const SourceListing listing = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(decode_labels(listing.entries[0].extra.at(0)), (std::vector<int64_t>{0, 1}));
  write_text(dir / "list.csv", "path,tags\n3.png,\"{\"\"name\"\": \"\"cat\"\"}\"\np/1.jpg,dog\n");
  const Status refused = value_or_throw(open_source(options))->list().status();
  EXPECT_EQ(refused.code(), ErrorCode::kCorrupt);
  EXPECT_NE(refused.message().find("list.csv line 2: column 'tags'"), std::string::npos) << refused.message();
}

TEST_F(ManifestTest, AColumnIsTakenForTheClassWhereItMustBe) {
  EXPECT_EQ(value_or_throw(list("path,breed\n3.png,a\np/1.jpg,b\n")).classes,
            (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(message("path,x1,y1,x2,y2\n3.png,1,2,3,4\np/1.jpg,1,2,3,5\n")
                .find("which column is the class? None of 'x1', 'y1', 'x2', 'y2' is called 'label'; give it "
                      "with --label"),
            std::string::npos)
      << message("path,x1,y1,x2,y2\n3.png,1,2,3,4\np/1.jpg,1,2,3,5\n");
  EXPECT_EQ(value_or_throw(list("path,y\n3.png,a\np/1.jpg,b\n")).classes.size(), 2u);
  for (const std::string name : {"text", "caption", "fold", "my column"}) {
    const std::string column = name == "my column" ? "'my column" : name;
    EXPECT_NE(message("path," + name + "\n3.png,a\np/1.jpg,b\np/2.jpg,b\n")
                  .find("which column is the class? '" + name +
                        "' is not one of the usual names (label, class, category, target, ...); if it is the "
                        "class, use --label " +
                        column),
              std::string::npos)
        << message("path," + name + "\n3.png,a\np/1.jpg,b\n");
  }
  EXPECT_NE(message("file_name,text\n3.png,a cat; a dog\np/1.jpg,\n").find("--field text:text"),
            std::string::npos);
  EXPECT_NE(
      message("path,seg mask\np/1.jpg,3.png\np/2.jpg,\n")
          .find(
              "the column 'seg mask' names images, not classes; if these are masks: --field 'seg mask:mask'"),
      std::string::npos)
      << message("path,seg mask\np/1.jpg,3.png\np/2.jpg,\n");
  const SourceListing beside = value_or_throw(list("path,label,mask\np/1.jpg,a,3.png\np/2.jpg,b,3.png\n"));
  ASSERT_EQ(beside.warnings.size(), 1u);
  EXPECT_NE(beside.warnings[0].find("--field mask:mask"), std::string::npos) << beside.warnings[0];
  SourceOptions caption{.path = dir / "list.csv"};
  caption.label = "text";
  write_text(dir / "list.csv", "path,text\n3.png,a\np/1.jpg,b\n");
  EXPECT_EQ(value_or_throw(value_or_throw(open_source(caption))->list()).classes.size(), 2u);
  std::string lines;
  for (int i = 0; i < 5; ++i) {
    write_text(dir / concat("q/", i, ".png"), "x");
    lines += concat("q/", i, ".png,an image ", i, "\n");
  }
  EXPECT_NE(message(lines).find("which column is the class? Each of its 5 lines has a different text"),
            std::string::npos)
      << message(lines);
  EXPECT_TRUE(list(lines + "3.png,an image 0\n").ok()) << "a value repeats";
  const auto jsonl = [&](const std::string& text) { return list(text, "list.jsonl").status().message(); };
  EXPECT_NE(jsonl("{\"file_name\": \"3.png\", \"bbox\": [[1, 2, 3, 4]]}\n")
                .find("is a list or an object, not a class"),
            std::string::npos);
  EXPECT_NE(
      jsonl("{\"file_name\": \"3.png\", \"objects\": {\"bbox\": [[1, 2, 3, 4]], \"categories\": [0]}}\n")
          .find("is a list or an object, not a class"),
      std::string::npos);
}

TEST_F(ManifestTest, AFirstLineOfJsonMaySayWhatColumnsAre) {
  const SourceListing listing = value_or_throw(
      list("{\"fields\": [\"boxes:boxes\", \"kinds:labels:boxes\", \"note:text\"]}\n"
           "{\"path\": \"3.png\", \"boxes\": [[1, 2, 3, 4]], \"kinds\": [\"cat\"], \"note\": \"a\"}\n",
           "list.jsonl"));
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"boxes", "kinds", "note"}));
  EXPECT_EQ(listing.fields[1].of, "boxes");
  EXPECT_EQ(listing.classes, std::vector<std::string>{"cat"});
  EXPECT_EQ(listing.entries[0].label, -1);
  EXPECT_NE(list("{\"fields\": [\"boxes:bxes\"]}\n{\"path\": \"3.png\"}\n", "list.jsonl")
                .status()
                .message()
                .find("boxes"),
            std::string::npos);
  EXPECT_NE(list("{\"fields\": []}\n{\"path\": 1,\n", "list.jsonl").status().message().find("line 2"),
            std::string::npos);
}

TEST_F(ManifestTest, ColumnsMayHoldNumbersLabelsBoxesAndPoints) {
  SourceOptions options{.path = dir / "list.csv"};
  options.fields = {"age:number",  "pose:numbers",    "tags:labels",
                    "boxes:boxes", "xywh:boxes-xywh", "eyes:points"};
  write_text(dir / "list.csv",
             "path,age,pose,tags,boxes,xywh,eyes,note\n"
             "3.png,1.5,1 2 3,dog|cat,\"1,2,3,4; 5,6,7,8\",1 2 3 4,,a\n"
             "p/1.jpg,-2,\"[4, 5, 6]\",,,,10 20 1,b\n");
  const SourceListing listing = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(listing.fields.size(), 7u);
  EXPECT_EQ(listing.fields[0].kind, FieldKind::kTensor);
  EXPECT_EQ(listing.fields[1].shape, (Shape{3}));
  EXPECT_EQ(listing.fields[2].kind, FieldKind::kLabels);
  EXPECT_EQ(listing.fields[3].kind, FieldKind::kBoxes);
  EXPECT_EQ(listing.fields[6].kind, FieldKind::kBytes);
  const SourceEntry& first = listing.entries[0];
  EXPECT_EQ(first.label, -1);
  EXPECT_EQ(floats(first.extra[0]), (std::vector<float>{1.5F}));
  EXPECT_EQ(floats(first.extra[1]), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(decode_labels(first.extra[2]), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(floats(first.extra[3]), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(floats(first.extra[4]), (std::vector<float>{1, 2, 4, 6}));
  EXPECT_EQ(first.extra[5], "");
  EXPECT_EQ(floats(listing.entries[1].extra[5]), (std::vector<float>{10, 20, 1}));
  EXPECT_EQ(listing.entries[1].extra[2], "");
  ASSERT_EQ(listing.warnings.size(), 1u);
  EXPECT_NE(listing.warnings[0].find("classes of boxes, masks or labels, but not one per image"),
            std::string::npos);
}

TEST_F(ManifestTest, ColumnsOfNumbersMayHaveADType) {
  SourceOptions options{.path = dir / "list.csv"};
  options.fields = {"id:number:i64", "grey:numbers:u8", "exact:number:f64", "half:number:f16", "age:number"};
  const auto list_of = [&](const std::string& line) {
    write_text(dir / "list.csv", "path,id,grey,exact,half,age\n" + line);
    return value_or_throw(open_source(options))->list();
  };
  const SourceListing listing = value_or_throw(list_of("3.png,16777217,1 255,0.1,0.5,16777217\n"));
  EXPECT_EQ(listing.fields[0].dtype, DType::kI64);
  EXPECT_EQ(listing.fields[1].dtype, DType::kU8);
  EXPECT_EQ(listing.fields[1].shape, (Shape{2}));
  EXPECT_EQ(decode_labels(listing.entries[0].extra[0]), std::vector<int64_t>{16'777'217});
  EXPECT_EQ(listing.entries[0].extra[1], "\x01\xff");
  double exact = 0;
  ASSERT_EQ(listing.entries[0].extra[2].size(), sizeof(exact));
  std::memcpy(&exact, listing.entries[0].extra[2].data(), sizeof(exact));
  EXPECT_EQ(exact, 0.1);
  EXPECT_EQ(listing.entries[0].extra[3].size(), 2u);
  EXPECT_NE(warnings_of(listing).find("list.csv line 2: a whole number in 'age' is rounded"),
            std::string::npos)
      << warnings_of(listing);
  EXPECT_EQ(warnings_of(listing).find("'id'"), std::string::npos);
  for (const auto& [line, said] :
       std::vector<std::pair<std::string, std::string>>{{"3.png,1.5,1 2,0,0,0\n", "'1.5'"},
                                                        {"3.png,1,1 256,0,0,0\n", "'256'"},
                                                        {"3.png,1,1 2,0,65520,0\n", "'65520'"},
                                                        {"3.png,1,1 2,0,0,1e39\n", "'1e39'"}}) {
    EXPECT_NE(list_of(line).status().message().find(said), std::string::npos) << said;
  }
  for (const char* line : {"3.png,1,1 2,nan,0,0\n", "3.png,1,1 2,,0,0\n"}) {  // one sample without a number
    const SourceListing missing = value_or_throw(list_of(concat("p/1.jpg,1,1 2,0,0,0\n", line)));
    EXPECT_EQ(missing.entries[0].problem, "");
    EXPECT_NE(missing.entries[1].problem.find("line 3: the column '"), std::string::npos)
        << missing.entries[1].problem;
    EXPECT_NE(missing.entries[1].problem.find("' has no number"), std::string::npos);
  }
  options.fields = {"i64:boxes", "score:numbers:i64"};  // a column of that name is meant
  write_text(dir / "list.csv", "path,i64,score\n3.png,1 2 3 4,0.5\n");
  EXPECT_EQ(value_or_throw(value_or_throw(open_source(options))->list()).fields[1].of, "i64");
}

TEST_F(ManifestTest, ColumnsMayBeOfBoxes) {
  SourceOptions options{.path = dir / "list.csv"};
  options.fields = {"score:numbers:boxes", "kinds:labels:boxes", "boxes:boxes"};
  write_text(dir / "list.csv",
             "path,score,kinds,boxes\n3.png,0.5 0.25,dog|cat,\"1,2,3,4; 5,6,7,8\"\np/1.jpg,,,\n");
  const SourceListing listing = value_or_throw(value_or_throw(open_source(options))->list());
  ASSERT_EQ(listing.fields.size(), 3u);
  EXPECT_EQ(listing.fields[0].of, "boxes");
  EXPECT_EQ(listing.fields[0].shape.rank(), 0) << "as many numbers as boxes";
  EXPECT_EQ(listing.fields[1].of, "boxes");
  EXPECT_EQ(listing.fields[2].of, "");
  EXPECT_EQ(floats(listing.entries[0].extra[0]), (std::vector<float>{0.5F, 0.25F}));
  const auto error = [&](const std::vector<std::string>& fields) {
    options.fields = fields;
    return value_or_throw(open_source(options))->list().status().message();
  };
  EXPECT_NE(
      error({"kinds:labels:boxs", "boxes:boxes"}).find("boxs is not a column of boxes; add --field boxs"),
      std::string::npos);
  EXPECT_NE(error({"kinds:labels:score", "score:numbers"}).find("score is not a column of boxes"),
            std::string::npos);
  EXPECT_NE(error({"score:number:boxes", "boxes:boxes"}).find("only labels and numbers can belong to boxes"),
            std::string::npos);
}

TEST_F(ManifestTest, ALabelAndLabelsShareOneTableOfClasses) {
  SourceOptions options{.path = dir / "list.csv"};
  options.label = "kind";
  options.fields = {"label:labels"};
  write_text(dir / "list.csv", "path,label,kind\n3.png,b;c,c\np/1.jpg,a,b\n");
  const SourceListing listing = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"labels"}) << "'label' is the record's own";
  EXPECT_EQ(listing.entries[0].label, 2);
  EXPECT_EQ(decode_labels(listing.entries[0].extra[0]), (std::vector<int64_t>{1, 2}));
}

TEST_F(ManifestTest, TheNamedLabelWinsOverAColumnOfThatName) {
  SourceOptions options{.path = dir / "list.csv"};
  options.label = "label2";
  write_text(dir / "list.csv", "path,label,label2,image\n3.png,b,x,i\np/1.jpg,a,y,j\n");
  const SourceListing listing = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"label_text", "image_text"}));
  EXPECT_EQ(listing.entries[1].extra, (std::vector<std::string>{"a", "j"}));
  EXPECT_NE(listing.warnings.at(0).find("the column 'label' of"), std::string::npos);
}

TEST_F(ManifestTest, JsonLinesAreReadByTheirKeys) {
  SourceOptions options{.path = dir / "list.jsonl"};
  options.fields = {"boxes:boxes", "tags:labels"};
  write_text(dir / "list.jsonl",
             "{\"file_name\": \"3.png\", \"label\": 7, \"boxes\": [[1, 2, 3, 4], [5, 6, 7, 8]], \"tags\": "
             "[\"x\"]}\n\n"
             "{\"label\": 8, \"file_name\": \"p/1.jpg\", \"more\": {\"a\": 1}, \"boxes\": null}\r\n");
  const SourceListing listing = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"7", "8", "x"}));
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"boxes", "tags", "more"}));
  EXPECT_EQ(floats(listing.entries[0].extra[0]).size(), 8u);
  EXPECT_EQ(listing.entries[1].extra[2], "{\"a\":1}");
  const auto error = [&](const std::string& text) {
    write_text(dir / "list.jsonl", text);
    return value_or_throw(open_source(options))->list().status().message();
  };
  EXPECT_NE(error("{\"path\": \"3.png\", \"label\": 1}\n[1]\n").find("line 2: not a JSON object"),
            std::string::npos);
  EXPECT_NE(error("{\"pth\": \"3.png\"}\n").find("no key 'path'"), std::string::npos);
  EXPECT_NE(error("{\"path\": \"3.png\", \"label\": 1}\n").find("no such column"), std::string::npos);
}

TEST_F(ManifestTest, JsonLinesThatNestTooDeepAreRefused) {
  const auto error = [&](size_t depth) {
    const std::string nested = std::string(depth, '[') + std::string(depth, ']');
    return list(
               "{\"path\": \"3.png\", \"label\": \"a[[\\\"[[\"}\n"
               "{\"path\": \"p/1.jpg\", \"label\": \"b\", \"more\": " +
                   nested + "}\n",
               "list.jsonl")
        .status()
        .message();
  };
  EXPECT_EQ(error(255), "");
  for (const size_t depth : {256, 100'000})
    EXPECT_NE(error(depth).find("line 2: values are nested more than 256 deep"), std::string::npos)
        << error(depth);
}

TEST_F(ManifestTest, NumbersMayHaveDecimalCommasWhereSemicolonsDivideCells) {
  SourceOptions options{.path = dir / "list.csv", .fields = {"x:number"}};
  const auto listed = [&](const std::string& first, const std::string& second) {
    write_text(dir / "list.csv", "path;label;x\n3.png;a;" + first + "\np/1.jpg;b;" + second + "\n");
    return value_or_throw(open_source(options))->list();
  };
  const SourceListing listing = value_or_throw(listed("0,5", "-12"));
  EXPECT_EQ(floats(listing.entries[0].extra[0]), std::vector<float>{0.5f});
  EXPECT_EQ(floats(listing.entries[1].extra[0]), std::vector<float>{-12.f});
  EXPECT_EQ(floats(value_or_throw(listed("1,5e3", "\"2,25\"")).entries[1].extra[0]),
            std::vector<float>{2.25f});
  EXPECT_NE(listed("0,5", "1.234").status().message().find("line 2 has a decimal comma and line 3 a point"),
            std::string::npos);
  EXPECT_NE(listed("1.234,5", "1").status().message().find("2 numbers"), std::string::npos);
  // Several numbers in a cell may have commas between them.
  options.fields = {"x:numbers"};
  const SourceListing two = value_or_throw(listed("0,5", "3,4"));
  EXPECT_EQ(floats(two.entries[0].extra[0]), (std::vector<float>{0, 5}));
  ASSERT_EQ(two.warnings.size(), 1u);
  EXPECT_NE(two.warnings[0].find("if it is one number with a decimal comma: --field x:number"),
            std::string::npos)
      << two.warnings[0];
  EXPECT_TRUE(value_or_throw(listed("0,5,1", "3,4,5")).warnings.empty());
  EXPECT_NE(
      message("path;label\n3.png;1\np/1.jpg;0,25\n").find("the label '0,25' is a number, but not a whole"),
      std::string::npos);
}

TEST_F(ManifestTest, NumbersMayHaveAPlus) {
  SourceOptions options{.path = dir / "list.csv", .fields = {"x:number", "n:number:i64", "b:boxes"}};
  write_text(dir / "list.csv", "path,x,n,b\n3.png,+1.5,+7,+1 2 +3 4\n");
  const SourceListing listing = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_EQ(floats(listing.entries[0].extra[0]), std::vector<float>{1.5F});
  EXPECT_EQ(decode_labels(listing.entries[0].extra[1]), std::vector<int64_t>{7});
  EXPECT_EQ(floats(listing.entries[0].extra[2]), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(ManifestTest, CellsThatAreNoneOfTheirKindAreNamed) {
  SourceOptions options{.path = dir / "list.csv"};
  const auto error = [&](const std::string& field, const std::string& cell) {
    options.fields = {field};
    write_text(dir / "list.csv", "path,label,x\n3.png,a,1 2 3\np/1.jpg,b,\"" + cell + "\"\n");
    return value_or_throw(open_source(options))->list().status().message();
  };
  EXPECT_NE(error("x:numbers", "1 2").find("line 3: column 'x': 2 numbers"), std::string::npos);
  EXPECT_NE(error("x:numbers", "1 2 nan").find("'nan'"), std::string::npos);
  EXPECT_NE(error("x:numbers", "1 2 1e99").find("'1e99'"), std::string::npos);
  EXPECT_NE(error("x:numbers", "1 2 1e39").find("'1e39' is too large for f32"), std::string::npos);
  EXPECT_NE(error("x:numbers", "1 2 -1e400").find("'-1e400' is too large for f32"), std::string::npos);
  EXPECT_NE(error("x:numbers:f64", "1 2 1e400").find("'1e400' is too large for f64"), std::string::npos);
  EXPECT_NE(error("x:points", "1 2 1e39").find("'1e39' is too large for f32"), std::string::npos);
  EXPECT_NE(error("x:numbers", "1 2 -inf").find("'-inf' is not finite"), std::string::npos);
  EXPECT_NE(error("x:numbers", "1 2 +-1").find("'+-1' is not a number"), std::string::npos);
  EXPECT_NE(error("x:number", "1").find("line 2: column 'x': 3 numbers"), std::string::npos);
  EXPECT_NE(error("x:boxes", "").find("line 2: column 'x': 3 numbers do not form boxes"), std::string::npos);
  EXPECT_NE(error("x:points", "1 2").find("2 numbers do not form points"), std::string::npos);
  EXPECT_NE(error("x:labels", "a||b").find("an empty class"), std::string::npos);
  EXPECT_NE(error("x:labels", "[1, {}]").find("not a list of names"), std::string::npos);
  EXPECT_NE(error("x:boxs", "").find("did you mean 'boxes'"), std::string::npos);
  EXPECT_NE(error("y:boxes", "").find("no such column"), std::string::npos);
  options.fields = {"x:boxes"};
  write_text(dir / "list.csv", "path,label,x\n3.png,a,5 5 4 6\n");
  EXPECT_NE(
      value_or_throw(open_source(options))->list().status().message().find("box 1 ends before it begins"),
      std::string::npos);
}

}  // namespace
}  // namespace dlpipe::data

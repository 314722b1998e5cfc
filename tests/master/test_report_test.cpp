// The report of a test: the table of classes, the confusion matrix, and both as JSON.

#include "master/report/test_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace convoy {
namespace {

using testing::Contains;

/// Of `classes` classes, each with two images, of which one of class 1 is taken for class 0.
Confusion one_mistake(int classes) {
  Confusion confusion(classes);
  Tensor outputs({2, classes, 1, 1});
  for (int c = 0; c < classes; ++c) {
    for (int n = 0; n < 2; ++n) {
      std::ranges::fill(outputs.sample(n), 0.0F);
      outputs.sample(n)[c == 1 && n == 1 ? 0 : c] = 1.0F;
    }
    confusion.add(outputs, {c, c}, 2);
  }
  return confusion;
}

TEST(TestReport, HasATableAndAMatrixForPeople) {
  const std::vector<std::string> lines = lines_of(one_mistake(3), {"cat", "dog", "a very long name of a class"});
  EXPECT_THAT(lines, testing::ElementsAre("class               images  accuracy  precision  most often taken for",
                                          "cat                      2   100.0 %     66.7 %",
                                          "dog                      2    50.0 %    100.0 %  cat (1)",
                                          "a very long name o       2   100.0 %    100.0 %",
                                          "confusion matrix in images: a row for each class, a column for each answer",
                                          "                    cat  dog  a v",  //
                                          "cat                   2    0    0",  //
                                          "dog                   1    1    0",  //
                                          "a very long name o    0    0    2"));
}

TEST(TestReport, NamesTheWorstOfManyClasses) {
  const std::vector<std::string> lines = lines_of(one_mistake(300), {});
  EXPECT_LT(lines.size(), 30U);
  EXPECT_EQ(lines[0], "the 20 worst classes:");
  EXPECT_THAT(lines[2], testing::StartsWith("class 1 "));
  EXPECT_THAT(lines, Contains("      1 of 2 images of class 1 taken for class 0"));
  for (const std::string& line : lines) EXPECT_LT(line.size(), 80U);
}

TEST(TestReport, IsCompleteInJson) {
  const nlohmann::ordered_json json = to_json(one_mistake(3), {"cat", "dog", "cow"});
  EXPECT_EQ(json["classes"][1].dump(), R"({"class":1,"name":"dog","images":2,"correct":1,"answers":1})");
  EXPECT_EQ(json["mistakes"].dump(), R"([{"class":1,"answer":0,"images":1}])");
  EXPECT_EQ(json["confusion"].dump(), "[[2,0,0],[1,1,0],[0,0,2]]");
  EXPECT_FALSE(to_json(one_mistake(300), {}).contains("confusion"));
}

}  // namespace
}  // namespace convoy

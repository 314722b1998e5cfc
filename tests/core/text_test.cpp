// Texts from other machines, before they reach a terminal or a log.

#include "core/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace convoy {
namespace {

using testing::HasSubstr;
using testing::Optional;

TEST(Texts, OfPeopleStayAsTheyAre) {
  for (const char* text : {"", "slave-1 (oneDNN 2.6.3, AVX-512)", "Küche", "日本", "🚚 9 %"})
    EXPECT_EQ(printable(text), text);
}

TEST(Texts, LoseTheirPowerOverTerminals) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("a\nb\tc\r\x7f"), "a\\x0ab\\x09c\\x0d\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "an escape sequence may begin with one character";
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "txt"),
            "\\xe2\\x80\\xaetxt")
      << "a mark that turns the direction of the line";
}

TEST(Texts, OfBytesThatAreNoUtf8AreWrittenOut) {
  EXPECT_EQ(printable("a\xff"), "a\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3") << "an end in the middle of a character";
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "a slash in too many bytes";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a surrogate pair";
  EXPECT_EQ(printable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80") << "beyond the last character";
  EXPECT_EQ(printable("\xe2(\xa1"), "\\xe2(\\xa1");
}

TEST(Texts, ThatAreTooLongAreCutBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 4), "abcd...");
  EXPECT_EQ(printable("aäö", 4), "aä...");
  EXPECT_EQ(printable("a\x1b", 4), "a...");
}

TEST(Names, OfSlavesAreShortAndPrintable) {
  EXPECT_FALSE(fault_of_name("küche-4711"));
  EXPECT_FALSE(fault_of_name(std::string(kLongestName, 'n')));
  EXPECT_THAT(fault_of_name(""), Optional(HasSubstr("empty")));
  EXPECT_THAT(fault_of_name(std::string(kLongestName + 1, 'n')),
              Optional(HasSubstr("has 65 bytes, and 64 are the most")));
  EXPECT_THAT(fault_of_name("a\x1b[31m"), Optional(HasSubstr("'a\\x1b[31m' has characters that cannot be printed")));
  EXPECT_THAT(fault_of_name("\xff"), Optional(HasSubstr("cannot be printed")));
}

}  // namespace
}  // namespace convoy

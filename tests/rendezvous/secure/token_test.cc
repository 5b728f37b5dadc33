#include "rendezvous/secure/token.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

namespace ddprun::rendezvous {
namespace {

const std::string kText = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

// A file of one test, removed with it.
class TokenFile {
 public:
  TokenFile(const std::string& text, mode_t mode) {
    char name[] = "/tmp/ddprun-token-XXXXXX";
    ::close(::mkstemp(name));
    path_ = name;
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }
  ~TokenFile() { ::unlink(path_.c_str()); }
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string BytesOf(const Token& token) {
  return {reinterpret_cast<const char*>(token.data()), Token::kBytes};
}

TEST(Token, ReadsHexadecimalDigitsBetweenBlanks) {
  const auto token = Token::FromText("  " + kText + "\n");
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(BytesOf(*token).substr(0, 4), std::string("\x00\x11\x22\x33", 4));
  EXPECT_EQ(BytesOf(*token).back(), '\xff');
}

TEST(Token, AnyOtherTextIsNone) {
  const std::string texts[] = {"",
                               " ",
                               kText.substr(1),
                               kText + "0",
                               kText + kText,
                               "x" + kText.substr(1),
                               std::string(64, 'g'),
                               "secret"};
  for (const std::string& text : texts) EXPECT_FALSE(Token::FromText(text).has_value()) << text;
}

TEST(Token, NewOnesAreReadAndDiffer) {
  const std::string text = NewTokenText();
  EXPECT_TRUE(Token::FromText(text).has_value()) << text;
  EXPECT_NE(text, NewTokenText());
}

TEST(TakeToken, NoVariableMeansNone) {
  Environment env(Environment::Variables{{"DDPRUN_TOKEN", ""}});
  const auto token = TakeToken(env);
  ASSERT_TRUE(token.has_value());
  EXPECT_FALSE(token->has_value());
}

TEST(TakeToken, RemovesTheVariablesAndWhatOtherProcessesCouldRead) {
  ::setenv("DDPRUN_TOKEN", kText.c_str(), 1);
  const char* const in_process = ::getenv("DDPRUN_TOKEN");
  Environment env = Environment::OfProcess();
  env.Set("DDPRUN_TOKEN_FILE", "/nowhere");
  const auto token = TakeToken(env);
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(BytesOf(**token), BytesOf(*Token::FromText(kText)));
  for (const std::string& entry : env.Entries()) EXPECT_FALSE(entry.starts_with("DDPRUN_TOKEN"));
  EXPECT_EQ(std::string(in_process, kText.size()), std::string(kText.size(), '\0'));
  ::unsetenv("DDPRUN_TOKEN");
}

TEST(TakeToken, ReadsAFileThatOnlyItsUserCanRead) {
  const TokenFile file(kText + "\n", 0600);
  Environment env(Environment::Variables{{"DDPRUN_TOKEN_FILE", file.path()}});
  const auto token = TakeToken(env);
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(BytesOf(**token), BytesOf(*Token::FromText(kText)));
  EXPECT_FALSE(env.Get("DDPRUN_TOKEN_FILE").has_value());
}

TEST(TakeToken, RefusesAFileThatOthersCanRead) {
  for (const mode_t mode : {0644, 0604, 0602}) {
    const TokenFile file(kText, mode);
    Environment env(Environment::Variables{{"DDPRUN_TOKEN_FILE", file.path()}});
    const auto token = TakeToken(env);
    ASSERT_FALSE(token.has_value()) << mode;
    EXPECT_EQ(token.error().code, Code::kUsage);
    EXPECT_EQ(token.error().where, file.path());
    EXPECT_EQ(token.error().what.find(kText), std::string::npos);
  }
}

TEST(TakeToken, RefusesAFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const TokenFile file(kText, 0600);
  ASSERT_EQ(::chown(file.path().c_str(), 12345, 12345), 0);
  Environment env(Environment::Variables{{"DDPRUN_TOKEN_FILE", file.path()}});
  EXPECT_FALSE(TakeToken(env).has_value());
}

TEST(TakeToken, RefusesWhatIsNoTokenAndDoesNotShowIt) {
  const TokenFile file("hunter2", 0600);
  Environment in_file(Environment::Variables{{"DDPRUN_TOKEN_FILE", file.path()}});
  Environment in_text(Environment::Variables{{"DDPRUN_TOKEN", "hunter2"}});
  Environment in_no_file(Environment::Variables{{"DDPRUN_TOKEN_FILE", "/nowhere/token"}});
  for (Environment* const env : {&in_file, &in_text, &in_no_file}) {
    const auto token = TakeToken(*env);
    ASSERT_FALSE(token.has_value());
    EXPECT_EQ(token.error().page, "token");
    EXPECT_EQ(Render(token.error()).find("hunter2"), std::string::npos);
  }
}

}  // namespace
}  // namespace ddprun::rendezvous

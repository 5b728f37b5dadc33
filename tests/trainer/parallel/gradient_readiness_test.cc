#include "trainer/parallel/gradient_readiness.h"

#include <gtest/gtest.h>

namespace ddprun::trainer {
namespace {

TEST(GradientReadiness, FillsABucketWithTheLastOfItsGradients) {
  GradientReadiness readiness(3, /*static_graph=*/false);
  readiness.SetBuckets({{2, 0}, {1}});
  for (int backward = 0; backward < 2; ++backward) {
    readiness.Begin();
    EXPECT_FALSE(readiness.full(0) || readiness.full(1));
    for (const size_t index : {2, 1}) {
      EXPECT_TRUE(readiness.NoteGradient(index));
      readiness.SetReady(index);
    }
    EXPECT_FALSE(readiness.full(0));
    EXPECT_TRUE(readiness.full(1));
    EXPECT_FALSE(readiness.used(0));
    readiness.SetReady(0);  // without a gradient
    EXPECT_TRUE(readiness.full(0));
    EXPECT_FALSE(readiness.used(0));
    EXPECT_TRUE(readiness.used(2));
    readiness.NoteSynchronised();
    EXPECT_FALSE(readiness.used(2));
  }
}

TEST(GradientReadiness, RemembersUseOverBackwardsThatAreNotSynchronised) {
  GradientReadiness readiness(2, /*static_graph=*/false);
  readiness.SetBuckets({{0, 1}});
  readiness.Begin();
  readiness.NoteGradient(1);
  readiness.Begin();
  EXPECT_TRUE(readiness.used(1));
  EXPECT_FALSE(readiness.ready(1));
}

TEST(GradientReadiness, LearnsAStaticGraphFromItsFirstBackward) {
  GradientReadiness readiness(3, /*static_graph=*/true);
  readiness.SetBuckets({{0, 1, 2}});
  readiness.Begin();
  // Two pieces of the first gradient, one of the second, none of the third.
  for (const size_t index : {0, 1, 0}) EXPECT_FALSE(readiness.NoteGradient(index));
  readiness.EndFirstOfStaticGraph();
  EXPECT_TRUE(readiness.ready(0) && readiness.ready(1));
  EXPECT_FALSE(readiness.ready(2));
  EXPECT_FALSE(readiness.has_no_gradient(2));  // known once the backward is through
  readiness.NoteSynchronised();
  readiness.Begin();
  EXPECT_TRUE(readiness.has_no_gradient(2));
  EXPECT_FALSE(readiness.NoteGradient(0));
  EXPECT_TRUE(readiness.NoteGradient(1));
  EXPECT_TRUE(readiness.NoteGradient(0));
}

TEST(GradientReadiness, CountsAnewForOtherBuckets) {
  GradientReadiness readiness(2, /*static_graph=*/false);
  readiness.SetBuckets({{0, 1}});
  readiness.Begin();
  readiness.SetReady(0);
  readiness.SetReady(1);
  readiness.SetBuckets({{1}, {0}});
  readiness.Begin();
  readiness.SetReady(1);
  EXPECT_TRUE(readiness.full(0));
  EXPECT_FALSE(readiness.full(1));
}

}  // namespace
}  // namespace ddprun::trainer

#include "base/line_chart.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(LineChart, HasTheExactValuesOfEachPoint) {
  const std::string chart =
      LineChart("loss", {.title = "steps"},
                {{.label = "a", .color = "#000", .points = {{1, 0.1}, {20, 1e-9}}}});
  EXPECT_THAT(chart, HasSubstr("data-x=\"1 20\" data-y=\"0.1 1e-09\""));
}

TEST(LineChart, LeavesAGapWhereAValueIsNotFinite) {
  const std::string chart =
      LineChart("loss", {.title = "steps"},
                {{.points = {{1, 1}, {2, 2}, {3, NAN}, {4, INFINITY}, {5, 1}, {6, 2}}}});
  const std::string path = chart.substr(chart.find(" d=\""));
  EXPECT_EQ(std::ranges::count(path, 'M'), 2);
  EXPECT_THAT(path, Not(testing::ContainsRegex("nan|inf")));
  EXPECT_EQ(LineChart("loss", {.title = "steps"}, {{.points = {{1, NAN}}}}), "");
}

TEST(LineChart, TakesAnyTextAsText) {
  const std::string chart =
      LineChart("<b>", {.title = "steps"}, {{.label = "\"><script>&", .points = {{1, 1}}}});
  EXPECT_THAT(chart, Not(HasSubstr("<b>")));
  EXPECT_THAT(chart, HasSubstr("data-label=\"&quot;>&lt;script>&amp;\""));
}

TEST(LineChart, RoundsNoTickOfAShortAxis) {
  const std::string chart = LineChart("loss", {.title = "steps"}, {{.points = {{1, 7}, {2, 9}}}});
  const std::string axis = chart.substr(chart.find(">9<"));  // below the ticks of y
  for (const char* tick : {">0<", ">0.5<", ">1<", ">1.5<", ">2<"}) {
    EXPECT_THAT(axis, HasSubstr(tick));
  }
}

TEST(LineChart, MarksPowersOfTenOnALogarithmicAxis) {
  const std::string chart = LineChart("loss", {.title = "rate", .logarithmic = true},
                                      {{.points = {{1e-5, 1}, {2e-3, 3}, {0.1, 2}}}});
  for (const char* tick : {">1e-5<", ">1e-4<", ">1e-3<", ">1e-2<", ">1e-1<"}) {
    EXPECT_THAT(chart, HasSubstr(tick));
  }
  EXPECT_THAT(chart, HasSubstr("data-first=\"-5\" data-last=\"-1\" data-logarithmic=\"1\""));
  EXPECT_THAT(chart, HasSubstr("d=\"M76,276h0L"));  // begins at the left end
}

TEST(ThinPoints, KeepsEndsAndExtremesInOrder) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), std::sin(i)});
  points[33333].y = 50;
  points[77777].y = -50;
  points[55555].y = NAN;
  const std::vector<ChartPoint> thin = ThinPoints(points, 900);
  EXPECT_LE(thin.size(), 902U);
  EXPECT_GE(thin.size(), 500U);
  EXPECT_EQ(thin.front().x, 0);
  EXPECT_EQ(thin.back().x, 99999);
  for (const double x : {33333, 55555, 77777}) {
    EXPECT_EQ(std::ranges::count(thin, x, &ChartPoint::x), 1) << x;
  }
  EXPECT_TRUE(std::ranges::is_sorted(thin, {}, &ChartPoint::x));
  EXPECT_EQ(ThinPoints(points, points.size()).size(), points.size());
}

}  // namespace
}  // namespace ddprun

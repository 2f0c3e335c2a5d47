"""What the deliveries are known to lack, found by comparing all twelve months; docs/pipeline.md has the counts.

Anything that these lists do not name is an orphan and stops a month.
"""

from __future__ import annotations

# Destinations that airports.csv does not list, with their time zone.  Atlantic time, no summer time: with it, arrival
# minus departure minus air time is 7 to 144 minutes of taxiing on all 7,537 flights that arrived there.
AIRPORT_ZONES = {
    "BQN": "America/Puerto_Rico",
    "PSE": "America/Puerto_Rico",
    "SJU": "America/Puerto_Rico",
    "STT": "America/Puerto_Rico",
}

# American and Envoy report fleet numbers in place of tail numbers, so most of their planes cannot be found.
CARRIERS_WITH_FLEET_NUMBERS = ("AA", "MQ")

# Tail numbers of the other carriers that planes.csv does not list.
PLANES = (
    *("D942DN", "N14628", "N149AT", "N16632", "N17627", "N24633", "N261AV", "N263AV", "N267AT", "N283AT"),
    *("N290AT", "N308AT", "N316AT", "N318AT", "N32626", "N328AT", "N329AT", "N337AT", "N344AT", "N354AT"),
    *("N426US", "N442US", "N445US", "N451UW", "N456UW", "N457UW", "N459UW", "N502SW", "N506SW", "N506UA"),
    *("N507JB", "N507UA", "N525UA", "N526JB", "N527JB", "N527UA", "N532UA", "N540UA", "N572UA", "N581UA"),
    *("N584UA", "N586UA", "N592UA", "N593UA", "N59630", "N62631", "N628AW", "N69154", "N73152", "N76153"),
    *("N764NC", "N766NC", "N770NC", "N773NC", "N775NC", "N780NC", "N784NC", "N786NC", "N787NC"),
)

# Days at the end of a month without weather: that of December ends on the 30th.
WEATHER_DAYS_MISSING = 1

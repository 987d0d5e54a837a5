-- How far a job moves the tag of a lane, or of a member of a group. All numbers up to 16 divide TAG_UNIT.

local TAG_UNIT = 720720

local function tagLength(cost, weight) return floor((cost * TAG_UNIT + floor(weight / 2)) / weight) end

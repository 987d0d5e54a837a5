package queuetest

var crowdRules []rule
var specRules []rule
var deleteRules []rule
var statisticsRules []rule
var jobRules []rule
var callRules []rule

package main

// The figures, in the order in which they are measured.
var figures = []Figure{
	appendSingle,
	appendBatch,
	drainRedis,
	idleRedis,
	idleEmbedded,
	memoryWaiting,
	appendEmbedded(1_000),
	appendEmbedded(1_000_000),
	ingressHTTP,
	deferRedis,
	deferEmbedded,
	readmitRedis,
	readmitEmbedded,
	deferredIdle,
	memoryDeferred(),
	deepQueue("append", deepAppend),
	deepQueue("reserve", deepReserve),
	deepQueue("settle", deepSettle),
	reserveCalls,
	idleQueues,
	pacing(14),
	pacing(100),
	pacing(1000),
}

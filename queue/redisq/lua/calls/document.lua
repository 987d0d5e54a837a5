#!lua flags=allow-oom
-- needs: documents
--
-- Look at a document.
--
-- ARGV[2]  KIND:NAME
-- Returns  {} if there is none, or {revision, when it was written last, text}

begin()
local d = documentOf(ARGV[2])
return d and d.text and { d.revision, d.at, d.text } or {}

-- Up Migration
-- Yanked versions that gave up their files kept names of capabilities, which count for no quota. Their hooks stay.
UPDATE versions SET added_capabilities = '{}',
    capabilities = ARRAY(SELECT c FROM unnest(capabilities) c WHERE c LIKE 'middleware.%' OR c = 'compaction.summarize')
  WHERE status = 'yanked' AND stored_bytes = 0;

-- Up Migration
-- The frontmatter of the latest version is the plugin's name and description. Names given at the creation hold until then.
-- The search texts follow by the trigger plugin_words.
UPDATE plugins p SET display_name = v.manifest ->> 'name', description = v.manifest ->> 'description'
  FROM versions v
 WHERE v.id = p.latest_version_id
   AND (p.display_name, p.description) IS DISTINCT FROM (v.manifest ->> 'name', v.manifest ->> 'description');

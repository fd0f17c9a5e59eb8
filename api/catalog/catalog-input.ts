/** Validates requests to the catalog: parameters and queries. */
import { z } from 'zod';
import { QUERY_MAX_CHARS } from '../../db/catalog/search.ts';
import { pageQuery, storedText } from '../../service/http/schemas.ts';

export const slugParams = z.object({ slug: z.string() });
export const catalogQuery = pageQuery.extend({ q: storedText(QUERY_MAX_CHARS).optional() });

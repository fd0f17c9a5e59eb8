/** Validates requests to the catalog: parameters and queries. */
import { z } from 'zod';
import { pageQuery, storedText } from '../../service/http/schemas.ts';

const SEARCH_MAX_CHARS = 200;

export const slugParams = z.object({ slug: z.string() });
export const catalogQuery = pageQuery.extend({ q: storedText(SEARCH_MAX_CHARS).optional() });

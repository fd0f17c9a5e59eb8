/** Shown while the code of a page is on its way. */
import { Skeleton } from '@mantine/core';
import { useEffect } from 'react';
import { announce } from './announcements.ts';

export function PagePending() {
  useEffect(() => announce('Loading'), []);
  return <Skeleton height={240} role="progressbar" aria-label="Loading the page" />;
}

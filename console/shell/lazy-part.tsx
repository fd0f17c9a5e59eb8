/** A part of a page that is a chunk of its own. If its code cannot be loaded, an alert takes its place and the rest of the page stays. */
import { CatchBoundary, type ErrorComponentProps, lazyRouteComponent } from '@tanstack/react-router';
import type { ComponentType } from 'react';
import { ErrorAlert } from './error-alert.tsx';
import { loadPart } from './load-chunk.ts';

/**
 * React's own `lazy` keeps a failure for ever.
 *
 * @param load imports the module
 * @param name of the component, which the module exports
 */
export function lazyPart<Props extends object, Name extends string>(
  load: () => Promise<Readonly<Record<Name, ComponentType<Props>>>>,
  name: Name,
): ComponentType<Props> {
  const Loaded = lazyRouteComponent(() => loadPart(load, name), name) as ComponentType<Props> & {
    readonly preload?: () => Promise<void>;
  };
  const Failed = ({ error, reset }: ErrorComponentProps) => (
    <ErrorAlert error={error} reset={() => void Promise.resolve(Loaded.preload?.()).then(reset)} />
  );
  return (props) => (
    <CatchBoundary getResetKey={() => name} errorComponent={Failed}>
      <Loaded {...props} />
    </CatchBoundary>
  );
}

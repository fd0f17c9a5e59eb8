/** Tabs with a view each. The page keeps the name of the selected one in its address. */
import { Tabs } from '@mantine/core';
import { type ReactNode, useEffect, useRef } from 'react';

interface TabViewsProps<Name extends string> {
  readonly label: string;
  readonly tabs: readonly { readonly name: Name; readonly label: string }[];
  readonly selected: Name;
  readonly onSelect: (name: Name) => void;
  readonly views: Readonly<Record<Name, ReactNode>>;
}

export function TabViews<Name extends string>({ label, tabs, selected, onSelect, views }: TabViewsProps<Name>) {
  const panel = useRef<HTMLDivElement>(null);
  /** The tab that is shown, or that its user has chosen: the focus stays on it. */
  const known = useRef(selected);
  const select = (next: string | null) => {
    const found = tabs.find(({ name }) => name === next);
    if (!found) return;
    known.current = found.name;
    onSelect(found.name);
  };
  // A link of the page has changed the tab: its user continues in the view.
  useEffect(() => {
    if (known.current !== selected) panel.current?.focus();
    known.current = selected;
  }, [selected]);
  return (
    <Tabs value={selected} onChange={select} keepMounted={false}>
      <Tabs.List aria-label={label}>
        {tabs.map(({ name, label }) => (
          <Tabs.Tab key={name} value={name}>
            {label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map(({ name }) => (
        <Tabs.Panel key={name} value={name} pt="md" tabIndex={-1} ref={name === selected ? panel : null}>
          {views[name]}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}

// No web font: the theme uses the fonts of the system.
import Theme from 'vitepress/theme-without-fonts'

import Front from './Front.vue'
import Layout from './Layout.vue'
import Simulation from './Simulation.vue'
import Simulator from './Simulator.vue'
import Versions from './Versions.vue'
import './style.css'

export default {
  extends: Theme,
  Layout,
  enhanceApp({ app }) {
    app.component('Front', Front)
    app.component('Simulation', Simulation)
    app.component('Simulator', Simulator)
    app.component('Versions', Versions)
  },
}
